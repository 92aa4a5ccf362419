# SPDX-License-Identifier: Apache-2.0
"""The distribution by itself: light, typed, and as its README says."""

import re
import subprocess
import sys
from pathlib import Path

import msgpack

from .conftest import answer

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_it_needs_neither_the_server_nor_numpy():
    code = "import sys, servekit_client; print(*sys.modules)"
    loaded = subprocess.check_output([sys.executable, "-c", code], text=True).split()

    assert not {"servekit", "servekit_archiver", "numpy", "gevent", "flask"} & set(loaded)


def test_it_says_that_it_is_typed():
    assert (ROOT / "servekit_client/py.typed").exists()


def test_the_code_of_the_readme_runs(scripted):
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    packed = msgpack.packb({"prediction": {"digit": 3}})
    server = scripted(answer(body=packed, content_type="application/msgpack"))
    exec(code.replace("http://127.0.0.1:8080", server.url), {})
    line, _, body = server.asked[0]

    assert line == "POST /digits/predict HTTP/1.1"
    assert msgpack.unpackb(body)["image"].code == 78
