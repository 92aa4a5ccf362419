# SPDX-License-Identifier: Apache-2.0
"""The program that callgrind counts: known numbers of requests through both hot paths.

Nothing but sockets is replaced. The front-end stands between a client, a supervisor and a
worker that live in this process, and whose own cost is small and always the same. Each case
is run with ``FEW`` and with ``MANY`` requests between marks, so that all else cancels.
"""

import argparse
import gc
import os
import select
import socket
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Any

FEW, MANY, WARM_UP = 192, 384, 64
BATCH = 32
LIMIT_S = 30.0  #: for the answers of one batch; callgrind makes all of it slow
BODY = b'{"x":[1.5,2.5,3.5,4.5]}'
POST = (
    b"POST /sum/predict HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\n\r\n%b"
) % (len(BODY), BODY)


class FrontEndPath:
    """A real front-end whose clients and worker are driven by hand, in lock-step."""

    def __init__(self, directory: Path) -> None:
        from servekit.frontend.middleware.compression import create_codings
        from servekit.frontend.server.assembly import Assembly
        from servekit.frontend.server.resources import Resources
        from servekit.ipc.channel import encode_frame
        from servekit.ipc.counters import Counters, create_memory
        from servekit.ipc.table import Interface, ModelRow, ReplicaRow, Table, TableUpdate
        from servekit.plugins import create_plugin_manager, read_plugin_settings
        from servekit.settings import Settings
        from servekit.settings.tokens import Tokens

        control, worker = (listen(directory / f"{name}.sock") for name in ("control", "worker"))
        counters = Counters(create_memory())
        settings = Settings(header_timeout=1e6, keep_alive=1e6)
        plugins = create_plugin_manager(discover=False)  # some want traces, whose cost is theirs
        resources = Resources(
            own_tls=None,
            own_listeners=(),
            plugins=plugins,
            plugin_settings=read_plugin_settings(settings, plugins),
            tokens=Tokens(),
            tls=None,
            codings={},
            request_codings=create_codings(settings.request_codings),
            access_log=None,
            shares=None,
        )
        listener = socket.create_server(("127.0.0.1", 0))
        address = listener.getsockname()
        assembly = Assembly(settings, directory, counters, address, resources)
        self.front_end = assembly.front_end
        replica = ReplicaRow(0, 1, str(directory / "worker.sock"), "serving")
        row = ModelRow("sum", "1.0", "", [replica], BATCH, 0.0, 1000.0, 1024, interface=Interface())
        self.supervisor = control.accept()[0]
        self.supervisor.sendall(encode_frame(TableUpdate(Table([row]), [0])))
        self._greet(worker)
        self.front_end.start([listener])
        self.clients = [socket.create_connection(address) for _ in range(BATCH)]
        self.turn()

    def turn(self) -> None:
        """Let the front-end do what it can do without waiting."""
        self.front_end.core.loop.run(nowait=True)

    def _greet(self, listener: socket.socket) -> None:
        """Be the worker that the routing table names."""
        from servekit.ipc.arena import Arena
        from servekit.ipc.batches import Hello, RequestMessage
        from servekit.ipc.channel import FrameReader, send_first

        self._turn_until_readable(listener)
        self.worker = listener.accept()[0]
        self.arena = Arena(2**20)
        send_first(self.worker, Hello(1), self.arena.descriptor)
        self.reader: FrameReader[Any] = FrameReader(self.worker, RequestMessage)
        self._turn_until_readable(self.worker)
        self.reader.read_first(2)
        self.turn()

    def _turn_until_readable(self, sock: socket.socket) -> None:
        for _ in range(1000):
            self.turn()
            if readable(sock):
                return
        raise AssertionError("the front-end opens no channel")

    def one_by_one(self, requests: int) -> None:
        """Each request is a batch of its own."""
        self._run(requests, self.clients[:1])

    def in_batches(self, requests: int) -> None:
        """``BATCH`` clients ask at once: the first goes alone, the others together."""
        self._run(requests, self.clients)

    def _run(self, requests: int, clients: list[socket.socket]) -> None:
        for _ in range(requests // len(clients)):
            for client in clients:
                client.send(POST)
            waiting = list(clients)
            until = monotonic() + LIMIT_S
            while waiting:
                assert monotonic() < until, f"no answer within {LIMIT_S} s"
                self.turn()
                if readable(self.worker):
                    self._answer()
                waiting = [client for client in waiting if not readable(client)]
            for client in clients:
                assert client.recv(65_536).startswith(b"HTTP/1.1 200 ")

    def _answer(self) -> None:
        from servekit.ipc.batches import Ping, Pong, Reply
        from servekit.ipc.channel import encode_frame

        for batch in self.reader.read():
            if isinstance(batch, Ping):  # set-up took long
                self.worker.send(encode_frame(Pong("")))
                continue
            answers = [("", "application/json", b'{"prediction":12.0}')] * len(batch.items)
            self.worker.send(encode_frame(Reply(batch.batch, answers, 0.001, 0.001, 0.001)))


class WorkerPath:
    """A loaded service between a request frame and a reply frame."""

    def __init__(self) -> None:
        from servekit.ipc.batches import Item, Reply
        from servekit.ipc.channel import encode_frame
        from servekit.plugins import create_plugin_manager
        from servekit.service.base import Service
        from servekit.worker.boot.assembly import assemble
        from servekit.worker.codecs.table import CodecTable

        class Sum(Service):
            def predict(self, batch: list) -> list:
                return [sum(item["x"]) for item in batch]

        self.predictor = assemble(Sum(), CodecTable(create_plugin_manager())).predictor
        self.reply = lambda turn: encode_frame(Reply(1, *turn), buffer)
        buffer = bytearray()
        self.item = Item(BODY, b"application/json", b"", "r-1", 1e9)

    def one_by_one(self, requests: int) -> None:
        self._run(requests, 1)

    def in_batches(self, requests: int) -> None:
        self._run(requests, BATCH)

    def _run(self, requests: int, size: int) -> None:
        items = [self.item] * size
        for _ in range(requests // size):
            assert self.reply(self.predictor.answer(items))


class Yardstick:
    """Plain interpreted work; its cost says what one unit is with this build of Python."""

    def __init__(self) -> None:
        self.seen: dict[bytes, int] = {}

    def run(self, rounds: int) -> None:
        for number in range(rounds):
            self._step(b"%d;%b" % (number % 100, BODY[:8]), number)

    def _step(self, key: bytes, number: int) -> None:
        values = [number, len(key), *key[:4]]
        self.seen[key] = self.seen.get(key, 0) + sum(values)
        if key.startswith(b"9") and isinstance(values, list):
            values.pop()
        for value in values:
            self.seen[key] ^= value & 0xFF


def listen(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()
    return listener


def readable(sock: socket.socket) -> bool:
    return bool(select.select([sock], [], [], 0)[0])


def mark() -> None:
    """Let callgrind write down what it has counted: it is told to do so at this call."""
    os.getppid()


def cases(directory: Path) -> dict[str, Callable[[int], None]]:
    """Return what is counted, in this order."""
    worker = WorkerPath()
    front_end = FrontEndPath(directory)  # the last: its worker must not be silent for long
    return {
        "front_end_one_by_one": front_end.one_by_one,
        "front_end_in_batches": front_end.in_batches,
        "worker_one_by_one": worker.one_by_one,
        "worker_in_batches": worker.in_batches,
        "yardstick": Yardstick().run,
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--names", type=Path, required=True, help="where to write the cases' names")
    names = parser.parse_args().names
    with tempfile.TemporaryDirectory() as directory:
        found = cases(Path(directory))
        names.write_text("\n".join(found))
        gc.collect()
        gc.freeze()
        for run in found.values():
            run(WARM_UP)
            for requests in (FEW, MANY):
                mark()
                run(requests)
            mark()
        sys.stdout.flush()
        os._exit(0)  # what follows is not ours to count


if __name__ == "__main__":
    main()
