# SPDX-License-Identifier: Apache-2.0
"""The files of a log directory as one log."""

from contextlib import closing

import msgspec
import pytest

from servekit.cli import main
from servekit.ipc.kept_log import LogEntry, LogFilter
from servekit.log_files.names import file_name, model_of
from servekit.log_files.reading import LogDirectory, NoLogFiles


def line(second, message, level="info"):
    time = f"2026-11-21T10:00:{second:02}.000+00:00"
    return msgspec.json.encode(LogEntry(time, level, "output", "a/0", message, model="a")) + b"\n"


@pytest.fixture
def directory(tmp_path):
    (tmp_path / "model-a.jsonl.10").write_bytes(line(1, "one"))
    (tmp_path / "model-a.jsonl.2").write_bytes(line(2, "two") + b"\n")
    (tmp_path / "model-a.jsonl").write_bytes(line(4, "four", "error") + b'{"torn')
    (tmp_path / "server.jsonl").write_bytes(line(3, "three"))
    (tmp_path / "access.jsonl").write_bytes(b"something else")
    return tmp_path


def messages(entries):
    return [entry.message for entry in entries]


@pytest.mark.parametrize(
    ("wanted", "most", "expected"),
    [
        pytest.param(LogFilter(), 9, ["one", "two", "three", "four"], id="all, in order"),
        pytest.param(LogFilter(), 2, ["three", "four"], id="the last"),
        pytest.param(LogFilter("a"), 9, ["one", "two", "four"], id="of a model"),
        pytest.param(LogFilter(level="error"), 9, ["four"], id="of a level"),
        pytest.param(LogFilter(since="2026-11-21T10:00:03"), 9, ["three", "four"], id="since"),
    ],
)
def test_the_last_entries(directory, wanted, most, expected):
    with closing(LogDirectory(directory, wanted)) as log:
        assert messages(log.last(most)) == expected


@pytest.mark.parametrize(
    ("place", "model", "complaint"),
    [("", "b", "no log of model b"), ("none", "", "No such file"), ("", "", "no log is there")],
)
def test_nothing_to_read(tmp_path, place, model, complaint):
    with pytest.raises(NoLogFiles, match=complaint):
        LogDirectory(tmp_path / place, LogFilter(model))


def test_following_through_a_rotation(directory, monkeypatch):
    path = directory / "model-a.jsonl"

    def rotate(_seconds):
        with path.open("ab") as file:
            file.write(b"\n" + line(5, "five"))
        path.rename(directory / "model-a.jsonl.1")
        path.write_bytes(line(6, "six"))
        (directory / "model-b.jsonl").write_bytes(line(7, "seven"))

    monkeypatch.setattr("servekit.log_files.reading.sleep", rotate)

    with closing(LogDirectory(directory, LogFilter())) as log:
        log.last(9)
        entries = log.follow()
        found = [next(entries), next(entries), next(entries)]

    assert messages(found) == ["five", "six", "seven"]


def test_the_command_reads_files_of_a_server_that_has_ended(directory, capsys):
    status = main(["logs", "--log-dir", str(directory), "a", "-n", "1"])

    assert (status, capsys.readouterr().out) == (
        0, "2026-11-21T10:00:04.000+00:00  a/0 | four\n",
    )  # fmt: skip


@pytest.mark.parametrize("model", ["", "a", "server", "a.jsonl.1", "model-a"])
def test_every_model_has_a_file_of_its_own(model):
    assert model_of(file_name(model)) == model
