# SPDX-License-Identifier: Apache-2.0
"""A front-end process between a stand-in supervisor and a scripted worker."""

import contextlib
import dataclasses
import json
import os
import queue
import socket
import sys
import tempfile
import threading
from contextlib import ExitStack
from pathlib import Path
from time import monotonic

import pytest

from servekit.ipc.arena import OVERFLOW_BYTES, Arena
from servekit.ipc.arena_reader import ArenaReader
from servekit.ipc.batches import (
    Freed,
    Hello,
    Open,
    Part,
    Parts,
    Ping,
    Pong,
    Predict,
    Reply,
    RequestMessage,
    Slab,
    Welcome,
)
from servekit.ipc.cancellation import CancelledReader
from servekit.ipc.channel import ChannelClosed, FrameReader, encode_frame, send_first
from servekit.ipc.control import ControlMessage, FrontEndReady, PluginHooks, WantedProcesses
from servekit.ipc.counters import Counters, create_memory
from servekit.ipc.table import Interface, ModelRow, ReplicaRow, Table, TableUpdate
from servekit.settings import Settings
from tests.fork_server import ForkedProcess, fork_server

WAIT_S = 60.0
PATIENT = {"header_timeout": 60.0, "body_timeout": 60.0}  #: longer than a busy machine takes


class ScriptedWorker:
    """Fills one replica: answers each item with its own body, unless told to hold still."""

    def __init__(self, address: Path, generation: int = 1, slots: int = 0) -> None:
        self.address, self.generation, self.slots = address, generation, slots
        self.opened: queue.Queue[Open] = queue.Queue()
        self.batches: queue.Queue[list] = queue.Queue()
        self.is_holding = False
        self.answer = lambda item: ("", "application/json", self.body(item))
        self.channel: socket.socket | None = None
        self.arena = Arena(2**26, overflow=OVERFLOW_BYTES)  #: of our answers
        self.bodies: ArenaReader | None = None  #: the front-end's
        self.cancelled: CancelledReader | None = None
        self.freed: list[int] = []
        self.responses: dict = {}  #: of the next batches, by place
        self.headers: queue.Queue[dict] = queue.Queue()
        self.held: tuple[int, list] | None = None
        self.greeted = threading.Event()
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(address))
        self.listener.listen(8)
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        while True:
            try:
                lost, (self.channel, _) = self.channel, self.listener.accept()
                if lost is not None:  # else the garbage collector warns of it in any later test
                    lost.close()
                send_first(self.channel, Hello(self.generation, self.slots), self.arena.descriptor)
                reader = FrameReader(self.channel, RequestMessage)
                messages, (bodies, cancelled) = reader.read_first(2)
                assert isinstance(messages[0], Welcome)
                self.bodies = ArenaReader(bodies)
                self.cancelled = CancelledReader(cancelled)
                self.greeted.set()
                while True:
                    for message in reader.read():
                        self._on(message)
            except ChannelClosed:
                continue
            except OSError:
                return

    def _on(self, message: Predict | Ping) -> None:
        if isinstance(message, Ping):
            self.channel.sendall(encode_frame(Pong("")))
        elif isinstance(message, Freed):
            self.freed += message.offsets
        elif isinstance(message, Open):
            self.freed += message.freed
            self.opened.put(message)
        else:
            self.freed += message.freed
            is_holding = self.is_holding  # as it was before the test hears of the batch
            self.held = (message.batch, message.items)
            self.batches.put(message.items)
            asked = {place: item.headers for place, item in enumerate(message.items)}
            self.headers.put({place: each for place, each in asked.items() if each})
            if not is_holding:
                self.release()

    def body(self, item) -> bytes:
        """Return the body of *item*, wherever it lies."""
        return bytes(self.bodies.view(item.body)) if isinstance(item.body, Slab) else item.body

    def release(self, *, is_last: bool = False) -> None:
        """Answer the batch in hand."""
        (batch, items), self.held = self.held, None
        answers = [self.answer(item) for item in items]
        reply = Reply(
            batch, answers, 0.001, 0.002, 0.003, is_last=is_last, responses=self.responses
        )
        self.channel.sendall(encode_frame(reply))

    def say(self, *parts: Part) -> None:
        """Send what one turn brought."""
        self.channel.sendall(encode_frame(Parts(list(parts))))

    def die(self) -> None:
        """Close the channel as the kernel does when a worker is killed."""
        self.channel.shutdown(socket.SHUT_RDWR)
        self.channel.close()

    def close(self) -> None:
        """Accept no channel any more, and close the one there is; a second time does nothing."""
        if self.listener.fileno() < 0:
            return
        self.listener.shutdown(socket.SHUT_RDWR)  # wakes a thread that accepts
        deadline = monotonic() + WAIT_S
        while self.thread.is_alive():  # it may have accepted one more channel meanwhile
            if self.channel is not None and self.channel.fileno() >= 0:
                with contextlib.suppress(OSError):  # the other end was first
                    self.channel.shutdown(socket.SHUT_RDWR)
            self.thread.join(0.1)
            assert monotonic() < deadline, f"the worker's thread did not end within {WAIT_S} s"
        self.listener.close()
        if self.channel is not None:
            self.channel.close()
        self.arena.close()


class FrontEndUnderTest:
    """The process, its port, and both of its other ends."""

    def __init__(self, directory: Path, slots: int = 0, **overrides) -> None:
        self.run_dir = Path(tempfile.mkdtemp(prefix="sk", dir=directory))
        self.log = self.run_dir / "log"  #: what it says on stderr
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = self.listener.getsockname()[1]
        self.settings = Settings(**{"port": self.port} | PATIENT | overrides)
        (self.run_dir / "settings.json").write_text(json.dumps(dataclasses.asdict(self.settings)))
        self.worker = ScriptedWorker(self.run_dir / "echo.sock", slots=slots)
        self.row = self.make_row()
        control = socket.socket(socket.AF_UNIX)
        control.bind(str(self.run_dir / "control.sock"))
        control.listen()
        control.settimeout(WAIT_S)
        self.process = self._spawn()
        self.control, _ = control.accept()
        control.close()
        self.control.settimeout(WAIT_S)
        self.reader = FrameReader(self.control, ControlMessage)
        self.heard: list = []
        self.publish()
        assert isinstance(self.hear(), PluginHooks)
        assert isinstance(self.hear(), WantedProcesses)
        ready = self.hear()
        assert isinstance(ready, FrontEndReady)
        self.pid = ready.pid  #: of the process that serves
        assert self.worker.greeted.wait(WAIT_S), "the front-end did not open a channel"

    def make_row(self, **changes) -> ModelRow:
        replica = ReplicaRow(0, 1, str(self.worker.address), "serving")
        values = {
            "name": "echo", "version": "1.0", "description": "", "replicas": [replica],
            "max_batch_size": 8, "max_delay_s": 0.0, "predict_timeout_s": 60.0, "capacity": 16,
            "interface": Interface(),
        }  # fmt: skip
        return ModelRow(**values | changes)

    def _spawn(self) -> ForkedProcess:
        self.counters = Counters(create_memory())
        descriptors = {"--listener": self.listener, "--counters": self.counters.descriptor}
        with self.log.open("ab") as log:
            server = fork_server("servekit.frontend")
            return server.start(["--run-dir", str(self.run_dir)], descriptors, log)

    def publish(self, *, is_draining: bool = False, **changes) -> None:
        """Send a routing table with the one model, changed as asked."""
        self.row = self.make_row(**changes)
        self.control.sendall(encode_frame(TableUpdate(Table([self.row], is_draining), [0])))

    def hear(self):
        """Return the next message to the supervisor."""
        while not self.heard:
            self.heard = self.reader.read()
        return self.heard.pop(0)

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=WAIT_S)

    def stop(self) -> int:
        """Stop it as a server does that stops as a whole; return its exit status."""
        if self.process.poll() is None:
            self.control.sendall(
                encode_frame(TableUpdate(Table([self.row], is_draining=True), [0]))
            )
        self.process.terminate()
        return self._close()

    def kill(self) -> None:
        """End it at once."""
        self.process.kill()
        self._close()

    def _close(self) -> int:
        status = self.process.wait(WAIT_S)
        sys.stderr.write(self.log.read_text())  # pytest shows it where a test fails
        self.worker.close()
        self.control.close()
        self.listener.close()
        descriptor, self.counters.descriptor = self.counters.descriptor, -1
        if descriptor >= 0:  # else it has been stopped before
            os.close(descriptor)
        return status


def receive(sock: socket.socket) -> tuple[int, dict[str, str], bytes]:
    """Read one answer: status, headers (names in lower case), body."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):  # not a byte more: the next answer may be behind it
        piece = sock.recv(1)
        assert piece, f"the connection ended within an answer: {head!r}"
        head += piece
    first, *lines = head.decode("latin-1").splitlines()
    fields = (line.partition(":") for line in lines if line)
    headers = {name.lower(): value.strip() for name, _, value in fields}
    body = b""
    size = int(headers.get("content-length", 0))
    while len(body) < size:
        piece = sock.recv(size - len(body))
        assert piece, f"the connection ended after {len(body)} of {size} bytes"
        body += piece
    return int(first.split()[1]), headers, body


def post(body: bytes, *headers: str, path: str = "/echo/predict") -> bytes:
    """Return the bytes of one POST."""
    lines = [f"POST {path} HTTP/1.1", "Host: test", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """One front-end for all tests of a module that leave it as it was."""
    front_end = FrontEndUnderTest(tmp_path_factory.mktemp("run"))
    yield front_end
    assert front_end.stop() == 0


@pytest.fixture
def clients(shared):
    """Return what sends requests to the shared front-end; its worker holds nothing afterwards."""
    from .clients import Clients, forget_batches, wait_for_queue

    wait_for_queue(shared, 0)  # the test before this one left some to be answered
    forget_batches(shared.worker)
    with ExitStack() as stack:
        yield Clients(shared, stack)
        shared.worker.is_holding = False
        if shared.worker.held:
            shared.worker.release()
        receive(Clients(shared, stack).send(b"last"))  # what queued before it is answered too


@pytest.fixture
def start(tmp_path):
    """Start front-ends with settings of their own; all are stopped at the end."""
    started = []

    def start_one(**overrides) -> FrontEndUnderTest:
        started.append(FrontEndUnderTest(tmp_path, **overrides))
        return started[-1]

    yield start_one
    for front_end in started:
        front_end.kill()
