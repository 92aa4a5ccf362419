# SPDX-License-Identifier: Apache-2.0
import errno
import json
import os
import pty
import resource
import signal
import subprocess
import sys
import termios

import pytest
from servekit_archiver.cli import exit_status as exits
from servekit_archiver.cli import main
from servekit_archiver.cli.output import human_bytes, human_seconds

from archiver.tests.forging import Item

COMMANDS = ("build", "inspect", "verify", "extract", "init", "migrate", "sbom", "completion")
PATIENCE_S = 120


@pytest.fixture
def run(capsys):
    """Run a command; return status, stdout and the lines of stderr."""

    def run_command(*arguments):
        try:
            status = main([str(argument) for argument in arguments])
        except SystemExit as leaving:
            status = leaving.code
        out, err = capsys.readouterr()
        return status, out, err.splitlines()

    return run_command


def start(*arguments, **how):
    command = [sys.executable, "-m", "servekit_archiver.cli", *map(str, arguments)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | how
    return subprocess.Popen(command, text=True, **pipes)


def test_from_init_to_extract(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    assert run("init", "hello")[0] == exits.OK
    status, out, err = run("build", "hello")
    assert (status, err) == (exits.OK, [])
    assert out.startswith("hello.mar: hello 1.0, 3 files, ")
    assert run("verify", "hello.mar")[1].startswith("hello.mar: sound, 3 files, ")
    assert run("extract", "hello.mar", "copy")[1].startswith("copy: 3 files, ")
    assert run("build", "copy", "-o", "again.mar")[0] == exits.OK
    assert (tmp_path / "again.mar").read_bytes() == (tmp_path / "hello.mar").read_bytes()


def test_build_prints_json(run, model, tmp_path):
    output = tmp_path / "a.mar"

    _, out, _ = run("build", model, "-o", output, "--name", "n", "--version", "2", "--json")

    result = json.loads(out)
    assert (result["path"], result["size"]) == (str(output), output.stat().st_size)
    assert (result["name"], result["version"], len(result["digest"])) == ("n", "2", 64)


def test_a_service_may_be_named_on_the_command_line(run, tree, tmp_path):
    path = tree(tmp_path / "iris", {"model.skops": ""})

    assert run("build", path, "-o", tmp_path / "a.mar", "--service", "sklearn")[0] == exits.OK


def test_inspect_shows_what_is_inside(run, tree, tmp_path):
    signature = 'inputs=[{name="image",dtype="float32",shape=[-1,8]}]'
    toml = f'service="onnx"\nlicense="MIT"\n[signature]\n{signature}\n[worker.env]\nA="b"\n'
    toml += f'[assets.made]\nsha256="{"0" * 64}"\n'
    toml += f'[assets.w]\nurl="https://a/w"\nsize=1500\nsha256="{"0" * 64}"\n'
    run("build", tree(tmp_path / "m", {"model.toml": toml}), "-o", tmp_path / "m.mar")

    status, out, _ = run("inspect", tmp_path / "m.mar")

    assert status == exits.OK
    for line in ("name        m", "license     MIT", "input       image  float32[any, 8]"):
        assert line in out.splitlines()
    assert "            A='b'" in out.splitlines()
    assert "asset       w: https://a/w, 1.5 kB" in out.splitlines()
    assert "asset       made: made by store_assets" in out.splitlines()
    assert "model.toml  " in out


def test_inspect_prints_json(run, archive):
    _, out, _ = run("inspect", archive, "--json")

    result = json.loads(out)
    assert result["manifest"]["name"] == "digits"
    assert result["size"] == archive.stat().st_size


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("inspect", "no.mar"), "no.mar: No such file or directory\n"),
        (("extract", "no.mar", "x"), "no.mar: No such file or directory\n"),
        (("build", "digits", "-o", "no/a.mar"), "no/a.mar: No such file or directory\n"),
        (("extract", "digits.mar", "bad.mar/x"), "bad.mar/x: Not a directory\n"),
        (("build", "digits", "-o", "digits"), "digits/digits.mar: is inside digits, the model "),
        (("verify", "bad.mar"), "bad.mar: entry 'b': its SHA-256 is "),
        (("extract", "bad.mar", "x"), "bad.mar: entry 'b': its SHA-256 is "),
        (("extract", "digits.mar", "digits"), "digits: is not an empty directory (--force writes "),
        (("extract", "digits.mar", "bad.mar"), "bad.mar: is not a directory\n"),
        (("extract", "digits.mar", "bad.mar", "--force"), "bad.mar: is not a directory\n"),
        (("build", "digits"), "digits.mar: already exists (--force replaces it)"),
        (("build", "no"), "no: no such directory"),
        (("init", "digits"), "digits/model.toml: already exists"),
        (("init", "two words"), "name: 'two words' is not made of letters"),
    ],
)
def test_an_error_is_one_line(run, archive, forge, tmp_path, monkeypatch, arguments, why):
    monkeypatch.chdir(tmp_path)
    forge(Item("b", b"bad", sha256="0" * 64)).rename("bad.mar")

    status, out, err = run(*arguments)

    assert (status, out, len(err)) == (exits.REFUSED, "", 1)
    assert f"{err[0]}\n".startswith(f"servekit-archive: {why}")


def test_problems_of_a_manifest_are_a_line_each(run, tree, tmp_path):
    path = tree(tmp_path / "m", {"model.toml": 'service="onnx"\nname="a b"\nx=1\n'})

    status, _, err = run("build", path)

    assert status == exits.REFUSED
    assert [line.split(": ")[:3] for line in err] == [
        ["servekit-archive", "model.toml", "x"],
        ["servekit-archive", "model.toml", "name"],
    ]


REQUIRED = "the following arguments are required:"
UNKNOWN = "unrecognized arguments:"


@pytest.mark.parametrize(
    ("arguments", "program", "says"),
    [
        ((), "", f"{REQUIRED} COMMAND (see servekit-archive --help)"),
        (("biuld",), "", "unknown command 'biuld', did you mean build?"),
        (("zzz",), "", "unknown command 'zzz' (see servekit-archive --help)"),
        (("build",), " build", f"{REQUIRED} DIR (see servekit-archive build --help)"),
        (("build", "a", "b"), " build", f"{UNKNOWN} b (see servekit-archive build --help)"),
        (("build", "a", ""), " build", f"{UNKNOWN} '' (see servekit-archive build --help)"),
        (("build", "a", "b c"), " build", f"{UNKNOWN} 'b c' (see servekit-archive build --help)"),
        (("build", "a", "--fast"), " build", f"{UNKNOWN} --fast (see servekit-archive build --"),
        (("build", "a", "--ouput=b"), " build", f"{UNKNOWN} --ouput=b, did you mean --output?"),
        (("build", "a", "--forc"), " build", f"{UNKNOWN} --forc, did you mean --force?"),
        (
            ("--compact", "verify", "a"),
            " verify",
            f"{UNKNOWN} --compact (see servekit-archive verify",
        ),
    ],
)
def test_a_wrong_command_line_is_one_line_of_the_command(run, arguments, program, says):
    status, out, err = run(*arguments)

    assert (status, out, len(err)) == (exits.USAGE, "", 1)
    assert err[0].startswith(f"servekit-archive{program}: {says}")


def test_a_command_that_is_nearly_right_is_told_the_right_one(run):
    (line,) = run("biuld")[2]

    assert line.endswith(", did you mean build?")


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_every_command_has_examples(run, command):
    status, out, _ = run(command, "--help")

    assert status == exits.OK
    assert f"examples:\n  servekit-archive {command} " in out


def test_the_version_names_the_format(run):
    assert run("--version")[1] == "servekit-archive 0.1.0 (archive format 1)\n"


@pytest.fixture
def terminal():
    """A terminal: our end and the program's, which the test closes."""
    leader, follower = pty.openpty()
    termios.tcsetwinsize(leader, (25, 80))
    yield leader, follower
    os.close(leader)


def big(model, size=200 << 20):
    with (model / "big.npy").open("wb") as file:
        file.truncate(size)
    return model


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, exits.INTERRUPTED), (signal.SIGTERM, exits.TERMINATED)]
)
def test_a_signal_ends_a_build_quietly(model, tmp_path, terminal, number, status):
    leader, follower = terminal
    output = tmp_path / "out"
    output.mkdir()
    process = start("build", big(model, 2 << 30), "-o", output, stderr=follower)
    os.close(follower)
    seen = os.read(leader, 1000)  # its progress bar says when it is at work
    process.send_signal(number)
    process.communicate(timeout=PATIENCE_S)

    assert process.returncode == status
    assert b"packing" in seen
    assert list(output.iterdir()) == []


def test_there_is_no_bar_without_a_terminal_or_for_what_is_small(model, tmp_path, terminal):
    leader, follower = terminal
    small = start("build", model, "-o", tmp_path / "a.mar", stderr=follower)
    small.communicate(timeout=PATIENCE_S)
    os.close(follower)
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):  # nothing was written
        os.read(leader, 1000)

    _, err = start("build", big(model), "-o", tmp_path / "b.mar").communicate(timeout=PATIENCE_S)

    assert err == ""


def test_a_reader_that_has_seen_enough_is_no_error(archive):
    reading, writing = os.pipe()
    os.close(reading)
    process = start("inspect", archive, stdout=writing)
    os.close(writing)

    _, err = process.communicate(timeout=PATIENCE_S)

    assert err == ""


@pytest.mark.parametrize(
    "words", [("--help",), ("--version",), ("completion", "bash"), ("inspect",)]
)
def test_output_that_cannot_be_written_is_one_line(archive, words):
    more = [archive] if words == ("inspect",) else []
    with open("/dev/full", "w") as full:  # noqa: PTH123 - a device
        process = start(*words, *more, stdout=full)
        _, err = process.communicate(timeout=PATIENCE_S)

    assert process.returncode == exits.REFUSED
    assert err == f"servekit-archive: standard output: {os.strerror(errno.ENOSPC)}\n"


@pytest.mark.parametrize("number", [1, 2])
def test_a_closed_stream_is_no_error(archive, number):
    process = start("verify", archive, preexec_fn=lambda: os.close(number))
    out, err = process.communicate(timeout=PATIENCE_S)

    assert (process.returncode, err) == (exits.OK, "")
    assert (out == "") == (number == 1)


def limit_file_size():
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))


def test_a_full_disk_is_one_line_and_leaves_nothing(model, tmp_path):
    process = start("build", model, "-o", tmp_path / "a.mar", preexec_fn=limit_file_size)

    _, err = process.communicate(timeout=PATIENCE_S)

    assert process.returncode == exits.REFUSED
    assert err.startswith("servekit-archive: ")
    assert err.endswith(f"{os.strerror(errno.EFBIG)}\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["digits"]


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (999_949, "999.9 kB"),
        (999_950, "1.0 MB"),
        (5_101_545, "5.1 MB"),
        (3 * 10**12, "3.0 TB"),
        (10**15, "1.0 PB"),
        (1 << 63, "9.2 EB"),
    ],
)
def test_sizes_are_written_for_people(size, text):
    assert human_bytes(size) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 s"),
        (1e-12, "0 s"),
        (0.00085, "850 us"),
        (0.0009996, "1 ms"),
        (0.01234, "12.3 ms"),
        (0.9994, "999 ms"),
        (0.9996, "1 s"),
        (2.5, "2.5 s"),
        (-2.5, "-2.5 s"),
        (1234.5, "1,234 s"),
    ],
)
def test_times_are_written_for_people(seconds, text):
    assert human_seconds(seconds) == text
