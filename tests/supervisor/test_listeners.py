# SPDX-License-Identifier: Apache-2.0
"""Addresses to listen on, and the messages to systemd, without a server."""

import os
import socket
import tempfile
from pathlib import Path

import pytest

from servekit.errors import StartupError
from servekit.extension.events import ServerStarted, ServerStopping
from servekit.settings import Settings, SettingsError, load_settings
from servekit.supervisor.os.listeners import SocketFile, passed_sockets
from servekit.supervisor.reporting.journal import Notice
from servekit.supervisor.reporting.systemd import Systemd
from servekit.supervisor.server.listeners import Listeners


@pytest.fixture
def path():
    """A short path: those of sockets are limited."""
    with tempfile.TemporaryDirectory(prefix="sk") as directory:
        yield Path(directory) / "s"


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        pytest.param({"bind": ["here"]}, "'here' is not HOST:PORT, unix:PATH or", id="no address"),
        pytest.param({"bind": ["unix:"]}, "bind: 'unix:': the path is empty", id="no path"),
        pytest.param(
            {"bind": ["[::1]:1"], "port": 1}, "bind: cannot be combined with port", id="p"
        ),
        pytest.param({"bind": ["h:1"], "host": "h"}, "bind: cannot be combined with host", id="h"),
        pytest.param({"bind": ["h:1"], "dev": True}, "host 'h' is not a loopback", id="dev"),
        pytest.param({"bind": ["systemd"], "dev": True}, "host 'systemd' is not", id="dev, passed"),
        pytest.param({"socket_mode": "9"}, "'9' is not three octal digits", id="mode"),
    ],
)
def test_what_is_refused(flags, complaint):
    with pytest.raises(SettingsError) as refused:
        load_settings(flags, environment={})

    assert complaint in str(refused.value)


def test_relative_paths_are_made_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settings = load_settings({"bind": ["unix:a/b.sock", "[::1]:80"], "dev": True}, environment={})

    assert settings.bind == (f"unix:{tmp_path}/a/b.sock", "[::1]:80")


def test_the_url_is_the_first_tcp_address(path):
    settings = Settings(bind=(f"unix:{path}", "127.0.0.1:0"), tls_certificate="x")
    listeners = Listeners(settings, {})
    addresses, url = listeners.addresses, listeners.url
    listeners.close()

    assert addresses == [f"unix:{path}", url]
    assert url.startswith("https://127.0.0.1:")
    assert not path.exists()


def test_a_second_address_that_is_taken_leaves_no_socket(path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        settings = Settings(bind=(f"unix:{path}", f"127.0.0.1:{taken.getsockname()[1]}"))
        with pytest.raises(StartupError, match="is in use"):
            Listeners(settings, {})

    assert not path.exists()


def test_another_file_is_not_replaced(path):
    path.write_text("mine")
    with pytest.raises(StartupError, match="is another file"):
        SocketFile(str(path), 0o600)

    assert path.read_text() == "mine"


def test_a_path_that_is_too_long_is_named():
    with pytest.raises(StartupError, match="107 bytes at most"):
        SocketFile(f"/tmp/{'x' * 200}", 0o600)


def test_the_socket_of_a_successor_is_not_removed(path):
    first = SocketFile(str(path), 0o600)
    first.socket.close()
    second = SocketFile(str(path), 0o640)
    first.remove()
    mode = path.stat().st_mode & 0o777
    second.remove()
    second.socket.close()

    assert (mode, path.exists()) == (0o640, False)


def test_sockets_for_another_process_are_not_ours():
    environment = {"LISTEN_PID": "1", "LISTEN_FDS": "1", "LISTEN_FDNAMES": "x", "HOME": "/"}

    assert passed_sockets(environment) == []
    assert environment == {"HOME": "/"}
    with pytest.raises(StartupError, match="systemd has passed no sockets"):
        Listeners(Settings(bind=("systemd",)), {})


def test_descriptors_that_are_no_sockets_are_refused(monkeypatch):
    end, other = os.pipe()
    monkeypatch.setattr("servekit.supervisor.os.listeners.FIRST_PASSED", end)
    with pytest.raises(StartupError, match=f"systemd: descriptor {end}: "):
        passed_sockets({"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "1"})
    os.close(end)
    os.close(other)


class Clock:
    """Timers that a test fires."""

    def __init__(self):
        self.waiting = []

    def call_later(self, delay_s, callback):
        self.waiting.append((delay_s, callback))

    def fire(self):
        waiting, self.waiting = self.waiting, []
        for _, callback in waiting:
            callback()


@pytest.mark.parametrize("is_abstract", [False, True])
def test_systemd_hears_each_state_once(path, is_abstract):
    manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    name = f"@servekit-{os.getpid()}" if is_abstract else str(path)
    manager.bind(name.replace("@", "\0"))
    manager.setblocking(False)
    clock, settled = Clock(), []
    environment = {"NOTIFY_SOCKET": name}
    systemd = Systemd(environment, clock.call_later, lambda: bool(settled))
    started = ServerStarted(time_s=1.0, version="1", url="u", pid=1, models=["a/1"], failed=[])
    stopping = ServerStopping(time_s=2.0, reason="SIGTERM", drain_delay_s=0.0, grace_s=1.0)
    systemd.event(started)
    systemd.log(Notice("reloading", "servekit", "reloading"))
    clock.fire()
    settled.append(True)
    clock.fire()
    systemd.event(stopping)
    heard = [manager.recv(4096).decode().split("\n")[0] for _ in range(4)]
    with pytest.raises(BlockingIOError):
        manager.recv(4096)
    manager.close()

    assert heard == ["READY=1", "RELOADING=1", "READY=1", "STOPPING=1"]
    assert (environment, clock.waiting) == ({}, [])


def test_the_watchdog_is_fed_twice_in_its_interval_and_only_if_it_is_ours(path):
    manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    manager.bind(str(path))
    ours, other = Clock(), Clock()
    variables = {"NOTIFY_SOCKET": str(path), "WATCHDOG_USEC": "3000000"}
    Systemd({**variables, "WATCHDOG_PID": str(os.getpid())}, ours.call_later, bool)
    Systemd({**variables, "WATCHDOG_PID": "1"}, other.call_later, bool)
    heard = manager.recv(4096)
    manager.close()

    assert (heard, [delay_s for delay_s, _ in ours.waiting], other.waiting) == (
        b"WATCHDOG=1", [1.5], [],
    )  # fmt: skip


def test_without_systemd_nothing_is_sent():
    systemd = Systemd({}, Clock().call_later, bool)
    systemd.log(Notice("reloading", "servekit", "reloading"))
    systemd.event(ServerStopping(time_s=2.0, reason="", drain_delay_s=0.0, grace_s=1.0))
