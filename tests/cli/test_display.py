# SPDX-License-Identifier: Apache-2.0
"""How the journal looks: plain, JSON, and drawn on a terminal."""

import contextlib
import fcntl
import json
import os
import pty
import re
import select
import struct
import termios
from time import monotonic

import pytest

from servekit.cli.output.display import create_display
from servekit.cli.output.json_lines import JsonDisplay
from servekit.cli.output.nonblocking_writer import MAX_WAITING_BYTES, NonblockingWriter
from servekit.cli.output.plain import PlainDisplay
from servekit.cli.output.terminal import TerminalDisplay
from servekit.settings import Settings
from servekit.supervisor.reporting.journal import LogPlace, Notice

SERVING = Notice("serving", "servekit", "0.1.0 serving a/1.0 at URL", fields={"url": "URL"})
EXITED = Notice("worker_exited", "a/0", "exited with -9", "warning", {"exit_code": -9})


def show(display):
    display.progress("a", "preparing")
    display.progress("a", "unpacking 10 %")
    display.progress("a", "unpacking 90 %")
    display.notice(Notice("detail", "a", "is fine", "debug"))
    display.line("a/0", "hello")
    display.progress("a", "")
    display.notice(EXITED)
    display.notice(SERVING)
    display.close()


def test_plain_lines(capfd):
    show(PlainDisplay())
    out, err = capfd.readouterr()

    assert err == "a unpacking\na/0 | hello\na/0 exited with -9\n"
    assert out == "servekit 0.1.0 serving a/1.0 at URL\n"


def test_plain_lines_end_before_the_number_of_a_step(capfd):
    display = PlainDisplay()
    for step in ("example 1", "example 2", "batch of 8", "batch of 32", "fetching: 3 MB of 7 MB"):
        display.progress("a", step)
    display.close()

    assert capfd.readouterr().err == "a example\na batch\na fetching\n"


def test_plain_lines_say_a_long_step_once(capfd):
    display = PlainDisplay()
    for step in ("", ": collecting numpy", ": downloading numpy: 3 of 18 MB"):
        display.progress("a", f"building the environment{step}")
    display.close()

    assert capfd.readouterr().err == "a building the environment\n"


def test_json_lines(capfd):
    show(JsonDisplay())
    out, err = capfd.readouterr()
    events = [json.loads(line) for line in err.splitlines()]

    assert [event["event"] for event in events] == ["progress", "output", "worker_exited"]
    assert events[2].items() >= {"level": "warning", "subject": "a/0", "exit_code": -9}.items()
    assert json.loads(out)["url"] == "URL"


def test_worker_that_writes_json_is_wrapped(capfd):
    JsonDisplay().line("a/0", '{"level":"x"}')

    assert json.loads(capfd.readouterr().err)["message"] == '{"level":"x"}'


CHAINED = """Traceback (most recent call last):
  File "service.py", line 3, in predict
    return 1 / 0
           ~~^~~
ZeroDivisionError: division by zero

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "service.py", line 5, in predict
    raise KeyError("a")
KeyError: 'a'
"""
GROUP = """  + Exception Group Traceback (most recent call last):
  |   File "service.py", line 3, in predict
  | ExceptionGroup: two (1 sub-exception)
  +-+---------------- 1 ----------------
    | ValueError: a
    +------------------------------------
"""
THREAD = """Exception in thread Thread-1 (work):
Traceback (most recent call last):
  File "service.py", line 3, in work
    1 / 0
ZeroDivisionError: division by zero
"""


@pytest.mark.parametrize(
    ("text", "title"),
    [
        pytest.param(CHAINED, "KeyError: 'a'", id="one that led to another"),
        pytest.param(GROUP, "ExceptionGroup: two (1 sub-exception)", id="a group"),
        pytest.param(THREAD, "ZeroDivisionError: division by zero", id="of a thread"),
    ],
)
def test_a_traceback_that_a_worker_prints_is_one_record_of_json(capfd, text, title):
    display = JsonDisplay()
    for line in ["before", *text.splitlines(), "after", *text.splitlines(), ""]:
        display.line("a/0", line, LogPlace("a", "1.0", "", 0))
    display.line("a/1", "of another")
    display.close()
    records = [json.loads(line) for line in capfd.readouterr().err.splitlines()]

    assert [each["message"] for each in records if each["subject"] == "a/0"] == [
        "before", title, "after", title, "",
    ]  # fmt: skip
    assert [each["traceback"] for each in records if "traceback" in each] == [text, text]
    expected = {"level": "error", "event": "output", "model": "a", "version": "1.0", "replica": 0}
    assert {key: records[1][key] for key in expected} == expected


def test_a_traceback_whose_end_does_not_come_is_shown_all_the_same(capfd):
    display, later = JsonDisplay(), []
    display.attach(lambda delay_s, callback: later.append(callback))
    display.line("a/0", "Traceback (most recent call last):")
    display.line("a/0", '  File "service.py", line 3')
    assert capfd.readouterr().err == ""

    (flush,) = later
    flush()
    assert json.loads(capfd.readouterr().err)["traceback"].count("\n") == 2


def test_quiet_level_keeps_what_workers_print_and_the_url(capfd):
    show(PlainDisplay(level=3))
    out, err = capfd.readouterr()

    assert (err, out) == ("a/0 | hello\n", "servekit 0.1.0 serving a/1.0 at URL\n")


# ---------------------------------------------------------------- terminal


END = b"\x03"  #: shows that all before it has come
WAIT_S = 60.0


class Screen:
    """A terminal of 60 columns."""

    def __init__(self, fd, keyboard):
        self.keyboard, self.fds = keyboard, {"stdout": fd, "stderr": fd}
        fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
        os.set_blocking(keyboard, False)

    def text(self):
        """Return what was written; the kernel hands it over, in order, after the write."""
        os.write(self.fds["stderr"], END)
        found = b""
        while not found.endswith(END):
            assert select.select([self.keyboard], [], [], WAIT_S)[0], f"after {WAIT_S} s: {found!r}"
            found += os.read(self.keyboard, 65536)
        return found.removesuffix(END).decode().replace("\r\n", "\n")


@pytest.fixture
def screen():
    ours, theirs = pty.openpty()
    yield Screen(theirs, ours)
    os.close(ours)
    os.close(theirs)


def test_terminal_draws_in_place_and_leaves_the_lines(screen):
    show(TerminalDisplay(has_colour=False, **screen.fds))
    text = screen.text()

    assert re.search(r"a  unpacking 10 %  \d\.\d s\n\x1b\[1A\r\x1b\[J", text)
    assert text.endswith("a/0 exited with -9\nservekit 0.1.0 serving a/1.0 at URL\n")


def test_spinner_line_never_wraps(screen, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    TerminalDisplay(has_colour=False, **screen.fds).progress("m" * 200, "loading")

    assert max(map(len, screen.text().splitlines())) < 60


@pytest.mark.parametrize(("has_colour", "has_escape"), [(False, False), (True, True)])
def test_colour(screen, has_colour, has_escape):
    TerminalDisplay(has_colour=has_colour, **screen.fds).notice(EXITED)

    assert ("\x1b[" in screen.text()) is has_escape


@pytest.mark.parametrize(
    ("settings", "environment", "expected", "has_colour"),
    [
        pytest.param({}, {"TERM": "xterm"}, TerminalDisplay, True, id="a terminal"),
        pytest.param({}, {"NO_COLOR": "1"}, TerminalDisplay, False, id="no colour is wanted"),
        pytest.param({}, {"TERM": "dumb"}, PlainDisplay, None, id="a dumb terminal"),
        pytest.param({"log_format": "json"}, {}, JsonDisplay, None, id="JSON is JSON"),
    ],
)
def test_display_fits_the_terminal(monkeypatch, settings, environment, expected, has_colour):
    monkeypatch.setattr(os, "isatty", lambda fd: True)
    monkeypatch.setattr(os, "environ", {"TERM": "xterm"} | environment)
    display = create_display(Settings(**settings))

    assert type(display) is expected
    assert getattr(display, "_has_colour", None) is has_colour


# ---------------------------------------------------------------- output


@pytest.fixture
def pipe():
    reader, writer = os.pipe()
    yield reader, writer
    for fd in (reader, writer):
        with contextlib.suppress(OSError):
            os.close(fd)


def test_reader_that_is_stuck_delays_nobody(pipe):
    output = NonblockingWriter(pipe[1])
    started_at = monotonic()
    for _ in range(20_000):
        output.write("x" * 99 + "\n")

    assert monotonic() - started_at < 5
    assert len(output._waiting) <= MAX_WAITING_BYTES + 100


def test_what_waits_is_written_later_and_the_loss_is_told(pipe):
    reader, writer = pipe
    os.set_blocking(reader, False)
    output, calls, read = NonblockingWriter(writer), [], bytearray()
    output.call_later = lambda delay, call: calls.append(call)
    for _ in range(20_000):
        output.write("x" * 99 + "\n")
    dropped = output._dropped
    while calls:
        read += os.read(reader, 1 << 20)
        calls.pop()()
    output.write("end\n")
    read += os.read(reader, 1 << 20)

    assert read.decode().endswith(f"x\n[{dropped} lines dropped]\nend\n")
    assert read.count(b"\n") == 20_000 - dropped + 2


def test_reader_that_is_gone_is_harmless(pipe):
    os.close(pipe[0])
    output = NonblockingWriter(pipe[1])
    output.write("to nobody\n")
    output.close()

    assert not output._waiting


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        pytest.param(
            '{"level":"error","message":"lost","request_ids":["a"],"size":3}',
            {"event": "log", "level": "error", "message": "lost", "request_ids": ["a"], "size": 3},
            id="a record is taken over",
        ),
        pytest.param(
            '{"level":"info","message":"x","event":"worker_ready","subject":"b/1","model":"b"}',
            {"event": "log", "subject": "digits/0", "model": "digits", "replica": 0},
            id="but not who it says it is",
        ),
        pytest.param(
            "warning: no weights", {"event": "output", "level": "warning"}, id="a level in text"
        ),
        pytest.param('{"level":"fatal","message":"x"}', {"event": "output"}, id="no level of ours"),
        pytest.param('{"level":"info","message":1}', {"event": "output"}, id="no message"),
        pytest.param('{"level":["info"],"message":""}', {"event": "output"}, id="a level of parts"),
        pytest.param("{" + "[" * 4000 + "}", {"event": "output"}, id="no JSON"),
    ],
)
def test_what_a_worker_logs_is_a_record_of_its_own(line, expected):
    reader, writer = os.pipe()
    display = JsonDisplay(stdout=writer, stderr=writer)
    display.line("digits/0", line, LogPlace("digits", "1.0", "", 0))
    display.close()
    os.close(writer)
    with os.fdopen(reader) as stream:
        record = json.loads(stream.read())

    assert expected.items() <= record.items()
