# SPDX-License-Identifier: Apache-2.0
"""The real ``servekit start``, its journal as JSON, and a control connection to look inside."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from functools import partial
from pathlib import Path
from time import monotonic

import pytest

from servekit.ipc.channel import FrameReader, encode_frame
from servekit.ipc.table import TableUpdate
from tests import waiting

WAIT_S = 100.0
GRACE_S = 1000  #: what waits for it takes longer than any test waits
HERE = Path(__file__).parent
STAND_INS = {
    "servekit.worker": str(HERE / "stand_in_worker.py"),
    "servekit.frontend": str(HERE / "stand_in_front_end.py"),
}


class Server:
    """One ``servekit start`` and all that it said."""

    def __init__(self, run_dir, arguments, stand_ins, environment):
        self.run_dir = run_dir
        self.events = []
        self._heard = threading.Condition()
        command = [sys.executable, str(HERE / "launcher.py"), "start", *arguments]
        command += ["--port", "0", "--run-dir", str(run_dir), "--log-format", "json"]
        command += [] if "--grace" in arguments else ["--grace", str(GRACE_S)]
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=os.environ | {"STAND_INS": json.dumps(stand_ins)} | environment,
        )
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self):
        for line in self.process.stdout:
            is_json = line.startswith("{")
            event = json.loads(line) if is_json else {"event": "raw", "message": line.rstrip()}
            with self._heard:
                self.events.append(event)
                self._heard.notify_all()

    def wait_for(self, event, count=1, **members):
        """Return the last of *count* events with these members."""

        def found():
            return [e for e in self.events if e["event"] == event and members.items() <= e.items()][
                count - 1 :
            ]

        with self._heard:
            self._heard.wait_for(found, WAIT_S)
            assert found(), f"no {event} {members} after {WAIT_S} s in {self.events}"
            return found()[0]

    def wait_exit(self, within_s=WAIT_S):
        """Return the exit status."""
        status = self.process.wait(within_s)
        self._thread.join(WAIT_S)
        return status

    def signal(self, number):
        self.process.send_signal(number)

    def messages(self):
        return [event["message"] for event in self.events]

    def control(self):
        return Control(next(self.run_dir.glob("servekit-run-*")) / "control.sock")

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGQUIT)
            try:
                self.process.wait(WAIT_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.wait_exit()
        self.process.stdout.close()


class Control:
    """What a front-end sees of the supervisor."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(WAIT_S)
        self.socket.connect(str(path))
        self._reader = FrameReader(self.socket, TableUpdate)
        self._rows = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def wait_for(self, condition):
        """Return the first table that fulfils *condition*."""
        deadline = monotonic() + WAIT_S
        while monotonic() < deadline:
            for update in self._reader.read():
                if condition(table := self._applied(update)):
                    return table
        raise AssertionError(f"no such table after {WAIT_S} s")

    def tables_there(self):
        """Return the tables that have been sent by now."""
        updates = self._reader.read()
        self.socket.setblocking(False)
        with suppress(BlockingIOError):
            while True:
                updates += self._reader.read()
        return [self._applied(update) for update in updates]

    def _applied(self, update):
        table = update.applied(self._rows)
        self._rows = {row.number: row for row in table.models}
        return table

    def send(self, message):
        self.socket.sendall(encode_frame(message))


@pytest.fixture
def run_dir():
    """A short path: those of sockets are limited."""
    path = Path(tempfile.mkdtemp(prefix="sk"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def start(run_dir):
    """Start servers that end with the test."""
    servers = []

    def start_server(*arguments, stand_ins=STAND_INS, **environment):
        server = Server(run_dir, [str(a) for a in arguments], stand_ins, environment)
        servers.append(server)
        return server

    yield start_server
    for server in servers:
        server.end()


@pytest.fixture
def model(tmp_path):
    """Make model directories; a stand-in worker does what *act* says."""

    def make(name="digits", act="", **tables):
        directory = tmp_path / name
        directory.mkdir()
        lines = [f'name = "{name}"', 'service = "service:S"', "[options]", f'act = "{act}"']
        for table, keys in tables.items():
            lines += [f"[{table}]", *(f"{key} = {value}" for key, value in keys.items())]
        (directory / "model.toml").write_text("\n".join(lines))
        (directory / "service.py").write_text(
            "from servekit import Service\nclass S(Service):\n"
            "    def predict(self, batch):\n        return batch\n"
        )
        return directory

    return make


@pytest.fixture
def processes():
    """Return the pids of a server's whole tree, by its session-crossing parentage."""

    def tree(pid):
        children = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    fields = (entry / "stat").read_text().rpartition(")")[2].split()
                except OSError:
                    continue
                children.setdefault(int(fields[1]), []).append(int(entry.name))
        found, todo = [], [pid]
        while todo:
            found += (below := children.get(todo.pop(), []))
            todo += below
        return found

    return tree


wait_until = partial(waiting.wait_until, within_s=WAIT_S)


def front_end_of(server):
    """Return the pid of the front-end, if it runs."""
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
            command = (entry.parent / "cmdline").read_bytes()
        except OSError:
            continue
        if int(fields[1]) == server.process.pid and any(
            part.endswith((b"stand_in_front_end.py", b"servekit.frontend"))
            for part in command.split(b"\0")
        ):
            return int(entry.parent.name)
    return None
