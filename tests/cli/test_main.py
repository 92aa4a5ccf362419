# SPDX-License-Identifier: Apache-2.0
"""The command line: help, mistakes, exit status, and what it costs to ask."""

import errno
import json
import os
import socket
import subprocess
import sys

import pytest
from servekit_archiver.cli import COMMANDS as ARCHIVE_COMMANDS

from servekit import __version__
from servekit.cli import main
from servekit.cli.parsing.command_table import BUILT_IN, installed_commands
from servekit.cli.parsing.exit_status import (
    INTERRUPTED,
    OK,
    PROBLEM_FOUND,
    STARTUP_FAILED,
    STATUSES,
    USAGE,
)
from servekit.cli.parsing.options import OTHERS, given_flags, grouped
from servekit.cli.parsing.parser import create_parser
from servekit.errors import StartupError
from servekit.supervisor.os.run_directory import RunDirectory


def servekit(*arguments, stdout=subprocess.PIPE, preexec_fn=None, **environment):
    return subprocess.run(
        [sys.executable, "-m", "servekit.cli", *arguments],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=120,
        env=os.environ | environment,
        preexec_fn=preexec_fn,
        check=False,
    )


@pytest.mark.parametrize("command", [(), *((name,) for name in installed_commands().commands)])
def test_help_has_examples(capsys, command):
    with pytest.raises(SystemExit) as ended:
        main([*command, "--help"])

    assert ended.value.code == OK
    assert f"examples:\n  servekit {' '.join(command)}" in capsys.readouterr().out


def test_a_reader_that_has_seen_enough_ends_it_quietly():
    """As ``| head`` does: the pipe has no reader any more."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    with open(write_end, "wb") as pipe:  # noqa: PTH123 - a descriptor
        done = subprocess.run(
            [sys.executable, "-m", "servekit.cli", "plugins"],
            stdout=pipe, stderr=subprocess.PIPE, timeout=120, check=False,
        )  # fmt: skip

    assert (done.returncode, done.stderr) == (PROBLEM_FOUND, b"")


@pytest.mark.parametrize("words", [["plugins"], ["--help"], ["completion", "bash"], ["--version"]])
def test_output_that_cannot_be_written_is_one_line(words):
    with open("/dev/full", "w") as full:  # noqa: PTH123 - a device
        done = servekit(*words, stdout=full)

    assert done.returncode == PROBLEM_FOUND
    assert done.stderr == f"servekit: standard output: {os.strerror(errno.ENOSPC)}\n"


def test_a_closed_standard_output_is_no_error():
    done = servekit("plugins", preexec_fn=lambda: os.close(1))

    assert (done.returncode, done.stdout, done.stderr) == (OK, "", "")


def test_a_file_that_cannot_be_written_is_not_taken_for_the_output(tmp_path, monkeypatch):
    """An error of a file has its traceback, as any mistake of ours has."""
    monkeypatch.setattr("servekit.cli._run", lambda _: (tmp_path / "no" / "file").write_text("a"))

    with pytest.raises(FileNotFoundError):
        main([])


@pytest.mark.parametrize("module", ["servekit", "servekit.cli"])
def test_the_package_is_the_command(module):
    command = [sys.executable, "-m", module, "--version"]

    assert subprocess.check_output(command, text=True) == f"servekit {__version__}\n"


def test_version(capsys):
    with pytest.raises(SystemExit):
        main(["--version"])

    assert capsys.readouterr().out == f"servekit {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        pytest.param([], "servekit: the following arguments are required: COMMAND", id="nothing"),
        pytest.param(["strat"], "servekit: unknown command 'strat', did you mean", id="command"),
        pytest.param(["strat"], "did you mean start?", id="command like another"),
        pytest.param(
            ["start", "--prot", "1"],
            "servekit start: unrecognized arguments: --prot, did you mean --port?",
            id="flag",
        ),
        pytest.param(["plugins", "--model"], "--model (see servekit plugins --help)", id="no flag"),
        pytest.param(["start", "--max-b", "1"], "did you mean --max-body?", id="abbreviation"),
        pytest.param(["top", "--once"], "--once (see servekit top --help)", id="nothing alike"),
    ],
)
def test_usage_error_is_one_line(capsys, arguments, line):
    with pytest.raises(SystemExit) as ended:
        main(arguments)

    assert ended.value.code == USAGE
    assert line in (error := capsys.readouterr().err)
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "environment", "line"),
    [
        pytest.param(["no.mar"], {}, "/no.mar: no such file or directory", id="path"),
        pytest.param([], {}, "models: none given; name an archive or a model directory", id="none"),
        pytest.param(["x", "--port", "70000"], {}, "--port: 70000 is above 65535", id="flag"),
        pytest.param(["x"], {"SERVEKIT_QUEUE": "0"}, "SERVEKIT_QUEUE: 0 is below 1", id="variable"),
        pytest.param(["=a.mar"], {}, "models: '=a.mar': the name is empty", id="empty name"),
        pytest.param(["x", "--grace", "inf"], {}, "--grace: 'inf' is not a number", id="infinite"),
        pytest.param(
            ["--config", "{toml}"], {}, "unknown key 'prot', did you mean 'port'?", id="key"
        ),
        pytest.param(["{here}", "--port", "{port}"], {}, "port {port} is in use", id="port in use"),
    ],
)
def test_impossible_start_is_one_line_and_status_3(tmp_path, arguments, environment, line):
    (tmp_path / "servekit.toml").write_text("prot = 1\n")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        words = {
            "toml": tmp_path / "servekit.toml",
            "here": tmp_path,
            "port": taken.getsockname()[1],
        }
        done = servekit("start", *[word.format(**words) for word in arguments], **environment)

    assert done.returncode == STARTUP_FAILED
    assert line.format(**words) in done.stderr
    assert (done.stderr.startswith("servekit: "), done.stderr.count("\n")) == (True, 1)


def test_no_directory_for_temporary_files_is_one_line(monkeypatch, capsys):
    """So it is in a container whose file system is read-only, without a volume at /tmp."""

    def find_none():
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    monkeypatch.setattr("tempfile.gettempdir", find_none)
    with pytest.raises(StartupError, match="run_dir: no directory for temporary files"):
        RunDirectory()

    assert main(["status"]) == STARTUP_FAILED
    assert capsys.readouterr().err.startswith("servekit: run_dir: no directory for temporary files")


def test_a_command_that_is_built_in_imports_no_plugin():
    code = (
        "import sys; from servekit.cli.parsing.parser import create_parser; "
        "create_parser(); print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"msgspec", "gevent", "flask", "numpy", "pluggy", "servekit.settings", "asyncio"}

    assert heavy.isdisjoint(done.stdout.split())


def test_supervisor_imports_only_the_standard_library_and_msgspec():
    code = (
        "import sys, servekit.cli.commands.start, servekit.cli.output.terminal; print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    # msgspec takes typing_extensions where it finds it; the others come with an editable install
    ours = {"servekit", "msgspec", "typing_extensions", "__main__", "_distutils_hack"}
    foreign = {
        n for n in loaded - set(sys.stdlib_module_names) - ours if not n.startswith("__editable__")
    }

    assert foreign == set()


CTRL_C = """
import os, signal, sys

class Finder:
    def find_spec(self, name, *_):
        if name == sys.argv[1]:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Finder())
from servekit.cli import main
sys.exit(main(["start", "no.mar"]))
"""


@pytest.mark.parametrize(
    "module",
    ["argparse", "servekit.cli.commands.start", "msgspec", "servekit.supervisor.server.supervisor"],
)
def test_ctrl_c_while_it_imports_is_silent(module):
    done = subprocess.run(
        [sys.executable, "-c", CTRL_C, module], capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stderr) == (INTERRUPTED, "")


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        pytest.param(
            'name = "m"\nservice = "a:B"\nsize = 3\nversion = 5\n',
            ["m cannot be loaded:", "  model.toml: size: ", "  model.toml: version: ", "  model"],
            id="several problems",
        ),
        pytest.param(
            'name = "m"\nservice = "a:B"\n', ["m cannot be loaded: model.toml: serv"], id="one"
        ),
    ],
)
def test_only_model_that_fails_says_so_once_with_a_line_for_each_problem(tmp_path, text, lines):
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "model.toml").write_text(text)
    done = servekit("start", str(tmp_path / "m"), "--port", "0")
    shown = done.stderr.splitlines()

    assert (done.returncode, len(shown)) == (STARTUP_FAILED, len(lines))
    assert all(map(str.startswith, shown, lines))


def test_two_models_of_one_name_are_told_apart_by_their_paths(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.toml").write_text('name = "hello"\nservice = "service:S"\n')
        (tmp_path / name / "service.py").write_text("from servekit import Service as S\n")
    paths = [str(tmp_path / "one"), str(tmp_path / "two")]
    done = servekit("start", *paths, "--port", "0")
    (line,) = (line for line in done.stderr.splitlines() if line.startswith("servekit: "))

    assert done.returncode == STARTUP_FAILED
    assert line.startswith("servekit: models: two models are called 'hello': ")
    assert all(path in line for path in paths)
    assert line.endswith("; use NAME=PATH")


def test_load_that_fails_after_the_start_ends_with_a_conclusion(tmp_path):
    (tmp_path / "model.toml").write_text('name = "m"\nservice = "service:S"\n')
    (tmp_path / "service.py").write_text("raise RuntimeError('no weights')\n")
    done = servekit("start", str(tmp_path), "--port", "0")

    assert done.returncode == STARTUP_FAILED
    assert done.stderr.count("exited with 3") == 1
    assert done.stderr.endswith("\nservekit: no model could be loaded\n")


def test_the_commands_of_the_archiver_are_its_own(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for words in (["init", "m"], ["build", "m"], ["verify", "m.mar"]):
        assert main(words) == OK
    assert main(["extract", "m.mar", "copy"]) == main(["inspect", "m.mar"]) == OK
    assert main(["build", "m"]) == PROBLEM_FOUND
    said = capsys.readouterr()

    assert "next: servekit build m" in said.out
    assert said.err == "servekit: m.mar: already exists (--force replaces it)\n"
    assert set(ARCHIVE_COMMANDS) < set(BUILT_IN.commands)


def test_every_option_of_start_has_a_heading():
    assert OTHERS not in grouped()


@pytest.mark.parametrize("flag", ["--manage", "--management"])
def test_the_address_of_management_has_two_spellings(flag):
    parsed = create_parser("start").parse(["start", "m.mar", flag, "127.0.0.1:0"])

    assert given_flags(parsed)["manage"] == "127.0.0.1:0"


def test_statuses_are_told_apart():
    assert sorted(STATUSES) == sorted({OK, PROBLEM_FOUND, USAGE, STARTUP_FAILED, 130, 143})


def test_plugins_as_json(capsys):
    assert main(["plugins", "--json"]) == OK
    found = json.loads(capsys.readouterr().out)
    order = [(not plugin["is_builtin"], plugin["name"]) for plugin in found]
    assert order == sorted(order)
