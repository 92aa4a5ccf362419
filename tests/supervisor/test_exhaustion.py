# SPDX-License-Identifier: Apache-2.0
"""What lacks descriptors, time or rights, and must not stop anything else."""

import errno
import socket
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from servekit.ipc.table import Table
from servekit.supervisor.os import orphans, run_directory
from servekit.supervisor.os.loop import Loop
from servekit.supervisor.os.orphans import Orphans
from servekit.supervisor.os.run_directory import RunDirectory
from servekit.supervisor.replicas.preloaded_parent import PreloadedParent
from servekit.supervisor.server import control
from servekit.supervisor.server.control import ControlSocket


def test_a_front_end_that_finds_no_descriptor_is_accepted_later(run_dir, monkeypatch):
    loop, ready = Loop(), []
    socket_path = Path(run_dir) / "control.sock"
    control_socket = ControlSocket(loop, socket_path, lambda: Table([]), ready.append, print)
    listener, refusals = control_socket._listener, []

    def accept():
        if len(refusals) < 3:
            refusals.append(1)
            raise OSError(errno.EMFILE, "Too many open files")
        loop.stop()
        return listener.accept()

    monkeypatch.setattr(
        control_socket, "_listener", SimpleNamespace(accept=accept, fileno=listener.fileno)
    )
    monkeypatch.setattr(control, "RETRY_S", 0.01)
    loop.call_later(10, lambda: pytest.fail("not accepted in ten seconds"))
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(socket_path))
        loop.run()
        for link in control_socket._links:
            link.channel.close()
    listener.close()

    assert len(refusals) == 3


def test_one_sweep_of_orphans_follows_another_once(monkeypatch, tmp_path):
    due = []
    loop = SimpleNamespace(call_later=lambda _delay, call: due.append(call))
    monkeypatch.setattr(orphans, "_sweep", lambda *_: 1)
    swept = Orphans(loop, tmp_path, set)
    for _ in range(5):
        swept.sweep()
    assert len(due) == 1

    due.pop()()
    assert len(due) == 1


def test_a_parent_that_answers_late_is_given_up():
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.settimeout(0.05)
    parent, killed = PreloadedParent.__new__(PreloadedParent), []
    parent._forks, parent._is_ready = ours, True
    parent._child = SimpleNamespace(process=SimpleNamespace(kill=lambda: killed.append(1)))

    with pytest.raises(TimeoutError) as failed:
        parent._fork(SimpleNamespace(inherited=()), {}, 1)

    assert failed.value.strerror == "the preloaded parent does not answer"
    assert (killed, parent._is_ready) == ([1], False)
    ours.close()
    theirs.close()


def test_servers_that_start_at_once_do_not_remove_each_others_directories(run_dir):
    failures, made = [], []

    def start():
        try:
            made.extend(RunDirectory(str(run_dir)) for _ in range(20))
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=start) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)

    assert not failures
    assert all((each.path / run_directory.LOCK).exists() for each in made)
    for each in made:
        each.remove()
    assert [*Path(run_dir).iterdir()] == []
