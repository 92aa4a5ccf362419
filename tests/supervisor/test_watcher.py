# SPDX-License-Identifier: Apache-2.0
"""The child that watches files: a save is told once; what nobody wrote by hand is not."""

import os
import socket
from pathlib import Path
from types import SimpleNamespace

import pytest

from servekit.ipc.channel import FrameReader
from servekit.settings.models import ModelSource
from servekit.supervisor.os.loop import Loop
from servekit.supervisor.preparing import watch_files
from servekit.supervisor.preparing.messages import FileChanged, WatchBegan
from servekit.supervisor.preparing.stamping import stamp
from servekit.supervisor.preparing.watcher import FileWatcher


@pytest.fixture
def directory(tmp_path):
    """A model directory with a file, a folder, and a file that its archive leaves out."""
    top = tmp_path / "model"
    (top / "inner").mkdir(parents=True)
    (top / "data").mkdir()
    (top / "service.py").write_text("one\n")
    (top / "inner/part.py").write_text("one\n")
    (top / ".servekitignore").write_text("data/\n")
    return top


def replace(path):
    """Save as an editor does: another file takes the name."""
    (path.parent / "new.tmp").write_text("two\n")
    (path.parent / "new.tmp").rename(path)


CHANGES = [
    pytest.param(lambda d: (d / "service.py").write_text("two\n"), id="written in place"),
    pytest.param(lambda d: replace(d / "service.py"), id="replaced"),
    pytest.param(lambda d: replace(d / "inner/part.py"), id="in a folder"),
    pytest.param(lambda d: (d / "weights.bin").write_bytes(b""), id="a new file"),
    pytest.param(lambda d: (d / "inner/part.py").unlink(), id="a file less"),
]
NO_CHANGES = [
    pytest.param(lambda d: (d / "__pycache__").mkdir(), id="what Python writes"),
    pytest.param(lambda d: (d / "data/rows.csv").write_text("1"), id="what the archive leaves out"),
    pytest.param(lambda d: (d / ".service.py.swp").write_text("1"), id="what vim writes"),
    pytest.param(lambda d: (d / "service.py~").write_text("1"), id="what emacs writes"),
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_another_stamp(directory, change):
    before = stamp(directory)
    change(directory)

    assert stamp(directory) != before


@pytest.mark.parametrize("change", NO_CHANGES)
def test_what_is_no_part_of_the_model_does_not_count(directory, change):
    before = stamp(directory)
    change(directory)

    assert stamp(directory) == before


def test_an_archive_is_a_file_that_may_be_replaced(directory):
    path = directory / "service.py"
    before, times = stamp(path), path.stat()
    replace(path)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # as rsync and tar do

    assert stamp(path) != before


def watch(paths, act, count):
    """Watch *paths*, *act*, and return the first *count* places that are told."""
    loop, places, events = Loop(), [], []
    loop.call_later(60, lambda: pytest.fail(f"told {places}, not {count} in 60 s: {events}"))

    def told(source):
        places.append(paths.index(Path(source.path)))
        if len(places) == count:
            watching.kill()

    def notice(notice):
        events.append(notice.event)
        {"watching": act, "watch_exited": loop.stop}[notice.event]()

    journal = SimpleNamespace(notice=notice, line=lambda subject, line: events.append(line))
    watching = FileWatcher(loop, journal, [ModelSource(str(path)) for path in paths], told)
    loop.run()
    return places


def test_saves_are_told_with_their_places(directory, tmp_path):
    other = tmp_path / "other.mar"
    other.write_bytes(b"1")

    def act():
        for path in (directory / "service.py", other):
            (tmp_path / "new").write_bytes(b"22")
            (tmp_path / "new").rename(path)

    assert sorted(watch([other, directory], act, 2)) == [0, 1]


def test_a_save_of_several_steps_is_told_once(directory, tmp_path, monkeypatch):
    """Something is written in each wait of the watch child, until it is calm."""
    other, service = tmp_path / "other.mar", directory / "service.py"
    other.write_bytes(b"1")
    steps = [lambda text=text: service.write_text(text) for text in ("", "two\n", "three\n")]
    deeds = iter([*steps, bool, lambda: other.write_bytes(b"22"), bool])

    def wait(control, seconds):
        for deed in deeds:
            deed()
            return False
        return True

    monkeypatch.setattr(watch_files, "wait", wait)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        watch_files.watch([other, directory], ours)
        told = FrameReader(theirs, WatchBegan | FileChanged).read()

    assert told == [WatchBegan(), FileChanged(1), FileChanged(0)]


def test_what_goes_and_comes_back_is_told(directory):
    moved = Path(f"{directory}-away")

    def act():
        directory.rename(moved)

    assert watch([directory], act, 1) == [0]
