# SPDX-License-Identifier: Apache-2.0
"""The last lines of the log: added by one process, read by others at any moment."""

import pytest

from servekit.ipc import kept_log
from servekit.ipc.kept_log import LogEntry, LogWriter, read_log


def line(message):
    return LogEntry("2026-01-01T00:00:00.000+00:00", "info", "output", "digits/0", message)


@pytest.fixture
def writer(tmp_path, monkeypatch):
    monkeypatch.setattr(kept_log, "RING", 1000)
    writer = LogWriter(tmp_path)
    yield writer
    writer.close()


def messages(tmp_path, after=0):
    lines, end = read_log(tmp_path, after)
    return [each.message for each in lines], end


def test_an_empty_log_has_no_lines(writer, tmp_path):
    assert read_log(tmp_path) == ([], 0)


def test_lines_are_read_from_a_place_on(writer, tmp_path):
    writer.add(line("one"))
    first, place = messages(tmp_path)
    writer.add(line("two\nand ü"))

    assert first == ["one"]
    assert messages(tmp_path, place)[0] == ["two\nand ü"]
    assert messages(tmp_path, 10**9)[0] == ["one", "two\nand ü"]


def test_the_oldest_lines_are_dropped_whole(writer, tmp_path):
    for number in range(100):
        writer.add(line(str(number)))
    kept, end = messages(tmp_path)

    assert kept == [str(number) for number in range(100 - len(kept), 100)]
    assert 5 < len(kept) < 10
    assert messages(tmp_path, 1) == (kept, end)
    assert messages(tmp_path, end) == ([], end)


def test_a_line_that_is_overwritten_while_it_is_read_is_left_out(writer, tmp_path, monkeypatch):
    for number in range(20):
        writer.add(line(str(number)))
    copy = kept_log._copy

    def copy_slowly(*place):
        writer.add(line("meanwhile"))
        return copy(*place)

    monkeypatch.setattr(kept_log, "_copy", copy_slowly)
    kept, _ = messages(tmp_path)

    assert kept == [str(number) for number in range(20 - len(kept), 20)]
    assert len(kept) > 4


def test_a_very_long_message_is_cut(writer, tmp_path, monkeypatch):
    monkeypatch.setattr(kept_log, "LONGEST", 10)
    writer.add(line("x" * 100))

    assert messages(tmp_path)[0] == ["x" * 10]


def test_a_server_that_has_ended_has_no_log(writer, tmp_path):
    (tmp_path / "log").unlink()
    (tmp_path / "log").symlink_to("/proc/0/fd/0")

    with pytest.raises(FileNotFoundError):
        read_log(tmp_path)
