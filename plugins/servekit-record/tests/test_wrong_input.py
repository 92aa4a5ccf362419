# SPDX-License-Identifier: Apache-2.0
"""What the commands say when they cannot work, before a server is asked or started."""

import io
import os
import signal

import pytest
from servekit_record import record_command
from servekit_record.record_command import CallWriter, StopSignal
from servekit_record.recording import line_of

from servekit.cli import main

from .test_comparison import call
from .test_files import HEAD

URL = "http://127.0.0.1:9"


@pytest.fixture
def told(tmp_path, monkeypatch, capsys):
    """Return ``told(*words)``: the exit status and standard error, in a directory with files."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "none.rec").write_bytes(HEAD)
    (tmp_path / "one.rec").write_bytes(HEAD + line_of(call(b"1")))
    (tmp_path / "model").mkdir()
    os.mkfifo(tmp_path / "pipe")

    def run(*words):
        try:
            status = main(list(words))
        except SystemExit as ended:
            status = ended.code
        return status, capsys.readouterr().err

    return run


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["nothing.rec", URL], "nothing.rec: No such file or directory"),
        (["model", URL], "model: not a file; it is read more than once"),
        (["pipe", URL], "pipe: not a file; it is read more than once"),
        (["none.rec", "model"], "none.rec: has no calls"),
        (["one.rec", "nothing.mar"], "nothing.mar: no such archive or model directory"),
        (["one.rec", URL], f"{URL}: Connection refused"),
        (["one.rec", "ftp://a"], "'ftp://a' is not http://HOST:PORT or https://HOST:PORT"),
        (["one.rec", URL, "--pytest", "t.py"], "--pytest: the test starts the model, so it needs"),
        (["one.rec", "model", "--pytest", "t.py", "--version", "2"], "--version: a test with"),
        (["one.rec", "model", "--pytest", "one.rec"], "one.rec: File exists"),
    ],
    ids=[
        "no recording",
        "a directory",
        "a pipe",
        "no calls",
        "no model",
        "no server",
        "no URL",
        "a test of a server",
        "a test of a version",
        "a file",
    ],
)
def test_what_cannot_be_replayed(told, words, problem):
    status, error = told("replay", *words)

    assert status == 3
    assert error.startswith(f"servekit: {problem}")


@pytest.mark.parametrize(
    ("words", "status", "problem"),
    [
        (["-o", "one.rec"], 3, "servekit: --output: one.rec exists"),
        (["-o", "no/calls.rec"], 3, "servekit: --output: no: no such directory"),
        (["-o", "calls.rec", "--for", "2d"], 2, "servekit record: argument --for: 2d is above"),
        (["-o", "calls.rec", "--server", URL], 1, "servekit: the server at URL does not answer"),
    ],
    ids=["a file", "no directory", "too long", "no server"],
)
def test_what_cannot_be_recorded(told, words, status, problem):
    assert told("record", *words)[0] == status
    assert told("record", *words)[1].startswith(problem.replace("URL", URL))


def test_the_command_waits_for_a_front_end_that_writes_late(monkeypatch):
    pages = [([], False), ([], False), (["late"], False), ([], True)]

    class Server:
        def get(self, _path):
            lines, is_complete = pages.pop(0) if len(pages) > 1 else pages[0]
            return {"after": {}, "lines": lines, "is_recording": False, "is_complete": is_complete}

    monkeypatch.setattr(record_command, "LAST_CALLS_S", 0.0)
    writer = CallWriter(io.BytesIO(), 99)
    record_command._fetch(Server(), "", writer, StopSignal())

    assert writer.calls == 1


def test_a_signal_before_the_first_look_ends_a_recording_in_good_order(monkeypatch):
    asked = []

    class Server:
        def ask(self, path, _method):
            asked.append(path)

        def get(self, _path):
            return {"after": {}, "lines": [], "is_recording": not asked, "is_complete": True}

    stop = StopSignal()
    stop(signal.SIGTERM, None)
    monkeypatch.setattr(record_command, "LAST_CALLS_S", 0.0)
    record_command._fetch(Server(), "/recordings/a", CallWriter(io.BytesIO(), 99), stop)

    assert asked == ["/recordings/a/stop"]
    with pytest.raises(KeyboardInterrupt):
        stop(signal.SIGTERM, None)


@pytest.mark.parametrize(
    ("lines", "limit", "summary"),
    [
        ([], 9, "no calls: no model has answered a request in this time"),
        (["123456789"], 9, "no calls: the first one is larger than --max-size"),
        (["1234", "1234"], 10, "2 calls, 10 bytes"),
        (["1234", "1234"], 9, "1 call, 5 bytes: the file is full (--max-size)"),
    ],
    ids=["nothing", "a large one", "all", "not all"],
)
def test_how_much_was_recorded(lines, limit, summary):
    writer = CallWriter(io.BytesIO(), limit)
    writer.write(lines)

    assert writer.summary == summary
