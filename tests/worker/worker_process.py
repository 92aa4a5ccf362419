# SPDX-License-Identifier: Apache-2.0
"""A real worker process, driven as the supervisor and a front-end drive it."""

import itertools
import math
import os
import socket
from pathlib import Path
from typing import Any

import msgspec
from servekit_archiver import Manifest

from servekit.ipc.arena import Arena
from servekit.ipc.arena_reader import ArenaReader
from servekit.ipc.batches import (
    Item,
    MethodCall,
    Part,
    Parts,
    Predict,
    ReplyMessage,
    Slab,
    SlotsReply,
    Welcome,
)
from servekit.ipc.cancellation import Cancelled
from servekit.ipc.channel import FrameReader, encode_frame, send_first
from servekit.ipc.control import Launch, Ready, Stop, WorkerMessage
from tests.fork_server import fork_server
from tests.waiting import wait_until

SERVICES = Path(__file__).parents[1] / "services"
PATIENCE_S = 60
ARENA_BYTES = 1 << 20  #: room for a few answers only


def item(
    body: bytes | Slab | Any,
    content_type="application/json",
    accept="",
    request_id="r1",
    deadline=math.inf,
    headers=None,
    calls=(),
    protocol=None,
):
    """Return an item as a front-end sends it; what is not bytes is sent as JSON."""
    encoded = body if isinstance(body, bytes | Slab) else msgspec.json.encode(body)
    given = (content_type.encode(), accept.encode(), request_id, deadline, headers)
    return Item(encoded, *given, tuple(calls), protocol)


def run(*names):
    """Return the calls of methods named as ``STAGE``, ``STAGE.METHOD`` or ``.METHOD``."""
    return tuple(MethodCall(*name.split(".")) for name in names)


def parts_of(message: ReplyMessage) -> list[Part]:
    """Return what *message* says of requests in slots; a batch as the ends of its members."""
    if isinstance(message, SlotsReply):
        answered = zip(message.streams, message.answers, strict=True)
        return [Part(each, "", b"", 0, end, trace=message.trace) for each, end in answered]
    return message.parts if isinstance(message, Parts) else []


def manifest_of(service: str, **keys) -> bytes:
    return Manifest.from_mapping({"name": "test", "service": service, **keys}).to_json()


class Channel:
    """A front-end's end of one channel."""

    numbers = itertools.count(1)

    def __init__(self, address: str) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(PATIENCE_S)
        self.sock.connect(address)
        self._reader = FrameReader(self.sock, ReplyMessage)
        self.arena = Arena(1 << 26)  #: of the bodies we send
        self.cancelled = Cancelled(32)
        with self.cancelled.descriptor() as cancelled:
            send_first(self.sock, Welcome(is_sampling=True), self.arena.descriptor, cancelled)
        messages, (descriptor, *others) = self._reader.read_first(1, 2)
        self.calls = [socket.socket(fileno=each) for each in others]  #: where it calls other models
        (self.hello,) = messages
        self._answers_file = os.dup(descriptor)
        self.answers = ArenaReader(descriptor, ARENA_BYTES)

    def receive(self):
        """Return the next message, when only one is to come."""
        return self.receive_many(1)[0]

    def receive_many(self, count):
        """Return the next *count* messages."""
        messages = []
        while len(messages) < count:
            messages += self._reader.read()
        assert len(messages) == count
        return messages

    def receive_some(self):
        """Return what comes next: one message or several."""
        while not (messages := self._reader.read()):
            pass
        return messages

    def send(self, message) -> None:
        self.sock.sendall(encode_frame(message))

    def predict(self, *items):
        """Send one batch and return its answers: error name or media type, and body."""
        number = next(self.numbers)
        self.send(Predict(number, list(items)))
        self.reply = self.receive()
        assert self.reply.batch == number
        answers = self.reply.answers
        return [(error or media_type, self.bytes_of(body)) for error, media_type, body in answers]

    def lay_out(self, body: bytes) -> Slab:
        """Put *body* into shared memory, as a front-end does with a large one."""
        slab = self.arena.allocate(len(body))
        self.arena.view(slab)[:] = body
        return slab

    @property
    def answers_bytes(self) -> int:
        """What the worker's answers take at present."""
        return os.fstat(self._answers_file).st_blocks * 512

    def close(self) -> None:
        """Close all that this end has."""
        for sock in (self.sock, *self.calls):
            sock.close()
        self.arena.close()
        self.answers.close()
        os.close(self._answers_file)

    def bytes_of(self, body: bytes | Slab) -> bytes:
        """Return the bytes of an answer, wherever they lie."""
        return bytes(self.answers.view(body)) if isinstance(body, Slab) else body


class Worker:
    """Starts ``python -m servekit.worker`` and sends ``Launch``."""

    def __init__(
        self,
        tmp_path: Path,
        service: str,
        directory: Path = SERVICES,
        colocated=(),
        max_concurrency=32,
        **keys,
    ) -> None:
        """*colocated* has the services of other stages by name; this one is ``host`` then."""
        self._channels: list[Channel] = []
        self.address = str(tmp_path / f"{len(list(tmp_path.iterdir()))}.sock")
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(self.address)
        listener.listen()
        self.control, theirs = socket.socketpair()
        self.control.settimeout(PATIENCE_S)
        descriptors = {"--control": theirs, "--listener": listener}
        self.log = tmp_path / f"log-{len(list(tmp_path.iterdir()))}"
        with self.log.open("wb") as log:
            server = fork_server("servekit.worker")
            self.process = server.start(["test/1.0#0"], descriptors, log, directory)
        theirs.close()
        listener.close()
        manifest = manifest_of(service, **keys)
        self._reader = FrameReader(self.control, WorkerMessage)
        launch = Launch(
            str(directory), manifest, 0, 1, 7, 1, 32, 1 << 20, ARENA_BYTES, 4096,
            stage="host" if colocated else "",
            colocated={name: manifest_of(each) for name, each in dict(colocated).items()},
            max_concurrency=max_concurrency,
        )  # fmt: skip
        self.control.sendall(encode_frame(launch))

    def receive(self):
        """Return what the worker tells the supervisor next."""
        while not (messages := self._reader.read()):
            pass
        return messages[0]

    def connect(self) -> Channel:
        self._channels.append(Channel(self.address))
        return self._channels[-1]

    def boot(self) -> "Worker":
        """Wait until the worker is ready."""
        ready = self.receive()
        assert isinstance(ready, Ready), ready
        self.interface, self.colocated = ready.interface, ready.colocated
        return self

    def wait_for_log(self, text: str) -> None:
        wait_until(lambda: text in self.log.read_text(), f"{text!r} in {self.log}")

    def stop(self) -> int:
        """Ask the worker to leave and return its exit status."""
        self.control.sendall(encode_frame(Stop()))
        return self.wait()

    def wait(self) -> int:
        return self.process.wait(PATIENCE_S)

    def end(self) -> None:
        self.process.kill()
        self.wait()
        self.control.close()
        for channel in self._channels:
            channel.close()
