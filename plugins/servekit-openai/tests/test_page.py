# SPDX-License-Identifier: Apache-2.0
"""The code of ``docs/openai.md`` and of the README of the plugin."""

import re
import tomllib
from pathlib import Path

import openai
import pytest

from servekit.testing import ServedModel, ServiceClient

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/openai.md").read_text(encoding="utf-8")
README = (ROOT / "plugins/servekit-openai/README.md").read_text(encoding="utf-8")


def file_of(page, name):
    """Return the code below the heading *name*."""
    return re.search(rf"### `{re.escape(name)}`\n\n```\w+\n(.*?)```", page, re.DOTALL)[1]


@pytest.mark.e2e
def test_the_parrot(tmp_path, capsys):
    for name in ("model.toml", "service.py"):
        (tmp_path / name).write_text(file_of(PAGE, f"parrot/{name}"))
    (client,) = re.findall(r"```python\n(from openai import OpenAI.*?)```", PAGE, re.DOTALL)
    with ServedModel(tmp_path) as served:
        exec(client.replace("http://localhost:8080", served.wait_ready().url))

    assert capsys.readouterr().out == "once upon a time "


def test_the_sizes(tmp_path):
    (code,) = re.findall(r"```python\n(import numpy.*?)```", PAGE, re.DOTALL)
    (tmp_path / "service.py").write_text(code)
    found = {}
    exec(code, found)
    (tmp_path / "model.toml").write_text('name = "sizes"\nservice = "service:Sizes"\n')
    with ServiceClient(found["Sizes"], tmp_path) as client:
        rows = client.predict([{"input": "abc"}, {"input": [1, 2]}])

    assert [list(row) for row in rows] == [[3, 1], [2, 1]]


def test_the_service_of_the_readme(tmp_path):
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    (tmp_path / "service.py").write_text(code)
    found = {}
    exec(code, found)
    (tmp_path / "model.toml").write_text('name = "parrot"\nservice = "service:Parrot"\n')
    with ServiceClient(found["Parrot"], tmp_path) as client:
        (pieces,) = client.predict(
            [{"model": "parrot", "messages": [{"role": "user", "content": "a b"}]}]
        )

    assert pieces == ["a ", "b "]


def test_the_options_of_the_proxy():
    from servekit_openai.proxy.service import ProxyOptions

    settings = tomllib.loads(file_of(PAGE, "llama/model.toml"))
    named = set(re.findall(r"^\| `(\w+)` \|", PAGE.partition("| option |")[2], re.MULTILINE))

    assert settings["options"].keys() <= named
    assert named == set(ProxyOptions.__struct_fields__)


def test_the_client_is_one_that_was_tested():
    assert int(openai.VERSION.partition(".")[0]) == 3
