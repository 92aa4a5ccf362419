# SPDX-License-Identifier: Apache-2.0
"""Completion in a real shell."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("argcomplete")
pytestmark = [pytest.mark.e2e, pytest.mark.slow]

PROGRAMS = Path(sys.executable).parent
LIMIT_S = 60
BASH = """
source <(servekit completion bash)
words=($1)
[[ "$1" == *" " ]] && words+=("")
COMP_LINE=$1 COMP_POINT=${#1} COMP_TYPE=9 COMP_CWORD=$((${#words[@]} - 1))
COMP_WORDS=("${words[@]}")
_python_argcomplete "${words[0]}" "${words[-1]}" "${words[-2]}"
printf '%s\\n' "${COMPREPLY[@]}"
"""


def run(*words, **variables):
    environment = os.environ | {"PATH": f"{PROGRAMS}:{os.environ['PATH']}"} | variables
    done = subprocess.run(
        words, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=True
    )
    return done.stdout


def complete(line, **variables):
    return [each.strip() for each in run("bash", "-c", BASH, "bash", line, **variables).split()]


@pytest.mark.skipif(not shutil.which("bash"), reason="bash is not installed")
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        pytest.param("servekit sni", {"snippet"}, id="a command"),
        pytest.param("servekit st", {"start", "status"}, id="two commands"),
        pytest.param("servekit start --log-fi", {"--log-files", "--log-file-size"}, id="flags"),
        pytest.param("servekit completion ", {"bash", "zsh", "fish"}, id="choices"),
        pytest.param("servekit logs --level w", {"warning"}, id="values of a flag"),
        pytest.param("servekit-archive ins", {"inspect"}, id="the archiver"),
        pytest.param("servekit-archive build --lo", {"--lock"}, id="a flag of the archiver"),
    ],
)  # fmt: skip
def test_bash_completes(line, expected):
    assert set(complete(line)) == expected


@pytest.mark.skipif(not shutil.which("bash"), reason="bash is not installed")
def test_files_are_completed_where_a_file_is_wanted(tmp_path):
    (tmp_path / "digits.mar").touch()

    assert complete(f"servekit check {tmp_path}/dig") == [f"{tmp_path}/digits.mar"]


@pytest.mark.skipif(not shutil.which("bash"), reason="bash is not installed")
def test_commands_of_plugins_are_completed(tmp_path):
    package = tmp_path / "paint-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: paint\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text("[servekit]\npaint = paint_hooks\n")
    (tmp_path / "paint_hooks.py").write_text(
        "from servekit import hookimpl\n"
        "from servekit.extension import Command\n"
        "@hookimpl\n"
        "def register_commands():\n"
        "    return [Command('paint', 'paint it', 'paint_hooks:configure')]\n"
        "def configure(parser):\n"
        "    parser.add_argument('--colour', choices=['red', 'blue'])\n"
        "    return lambda parsed: 0\n"
    )

    assert complete("servekit pai", PYTHONPATH=str(tmp_path)) == ["paint"]
    assert complete("servekit paint --colour r", PYTHONPATH=str(tmp_path)) == ["red"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_read_the_code(shell, tmp_path):
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    code = tmp_path / "code"
    code.write_text(run("servekit", "completion", shell))
    if shell == "fish":
        script = f"source {code}; complete -C 'servekit sni'"
        assert "snippet" in run(shell, "-c", script)
    else:
        run(shell, "-f", "-c", f"autoload -U compinit; compinit -u; source {code}")
