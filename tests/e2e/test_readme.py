# SPDX-License-Identifier: Apache-2.0
"""The commands of the README, run as they stand there, give what stands there."""

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from servekit_archiver.directory.scaffold import scaffold

from .conftest import BIN, WAIT_S, Server

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CONSOLE = re.findall(r"```console\n(.*?)```", README, re.DOTALL)
pytestmark = pytest.mark.e2e


def commands(block: str) -> list[tuple[str, str]]:
    """Return each command of a console block with the output shown below it."""
    parts = re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    split = [part.partition("\n")[::2] for part in parts]
    return [(command.split("#")[0].strip(), output.strip()) for command, output in split]


@pytest.mark.slow
def test_demo():
    (command, _), *_ = commands(CONSOLE[0])
    # the installation is there already; what counts here is the demonstration
    done = subprocess.run(
        shlex.split(command), cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "truth" in done.stdout
    assert "predicted" in done.stdout
    assert "right: 35" in done.stdout  # of 360
    said = [line for line in done.stderr.splitlines() if not line.startswith("WARNING: ")]  # pip's
    assert said == []


def test_own_model(tmp_path):
    *builds, (start, serving), (curl, answer) = commands(CONSOLE[1])
    environment = os.environ | {"PATH": f"{BIN}:{os.environ['PATH']}"}
    for command, _ in builds:
        subprocess.run(shlex.split(command), cwd=tmp_path, env=environment, check=True)
    server = Server(tmp_path, *shlex.split(start)[2:])
    try:
        server.wait_ready()
        asked = curl.replace("http://127.0.0.1:8080", server.url)
        done = subprocess.run(
            shlex.split(asked), capture_output=True, text=True, timeout=WAIT_S, check=True
        )
    finally:
        status = server.stop()

    assert serving.replace("8080", str(server.port)) in server.output
    assert (done.stdout, status) == (answer, 0)


def test_the_service_shown_is_the_one_that_init_writes(tmp_path):
    (shown,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    scaffold(tmp_path / "hello")

    assert shown == (tmp_path / "hello" / "service.py").read_text()
