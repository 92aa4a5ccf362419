# SPDX-License-Identifier: Apache-2.0
"""Keeps the history in the observer, and answers the front-ends that show it.

A thread asks a front-end for the counters every ten seconds, over the private socket. Another one
answers questions at a Unix socket in the run directory: front-ends come and go, and any of them
may be asked for a page.
"""

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPException
from pathlib import Path
from threading import Event, Lock, Thread
from time import time
from typing import Any, Final, TypeVar

from msgspec import MsgspecError, Struct, msgpack

from servekit.extension import RequestTraced, UnixConnection
from servekit_console.history import INTERVAL_S, History, HistoryPage
from servekit_console.samples import VersionSample

__all__ = ["SAMPLES", "AskForHistory", "AskForTrace", "AskForTraces", "Collector", "Reader"]

MANAGEMENT: Final = "manage.sock"  #: in the run directory, as the others
SOCKET: Final = "console.sock"
FILE: Final = "console.history"
SAMPLES: Final = "/console/samples"  #: path on the management listener
WRITE_EVERY: Final = 3  #: samples
TIMEOUT_S: Final = 10.0  #: the observer has a low priority, and the machine may be busy
RETRY_S: Final = 0.1  #: until the next attempt to accept a connection

Answer = TypeVar("Answer")


class AskForHistory(Struct, tag="history", array_like=True):
    """Numbers of versions; the answer is a ``HistoryPage``."""

    fields: list[str]
    keys: list[str] = []


class AskForTraces(Struct, tag="traces", array_like=True):
    """The slowest requests of a model, or of all; the answer is a list of ``RequestTraced``."""

    model: str = ""
    limit: int = 100


class AskForTrace(Struct, tag="trace", array_like=True):
    """One request; the answer is a ``RequestTraced`` or ``None``."""

    request_id: str


_question = msgpack.Decoder(AskForHistory | AskForTraces | AskForTrace)


class Collector:
    """One for each observer."""

    def __init__(self, run_directory: Path) -> None:
        """Take over the history of the observer before this one."""
        self._directory = run_directory
        self._history = History()
        self._history.read(self._directory / FILE)
        self._lock = Lock()  #: for the history
        self._is_over = Event()  #: no front-end has this plugin

    def start(self) -> None:
        """Start the threads."""
        for run in (self._collect, self._answer):
            Thread(target=run, name=f"console {run.__name__}", daemon=True).start()

    def add_trace(self, trace: RequestTraced) -> None:
        """Keep *trace*."""
        with self._lock:
            self._history.add_trace(trace)

    def write(self) -> None:
        """Leave the history to the next observer, if the disk has room."""
        with suppress(OSError), self._lock:
            self._history.write(self._directory / FILE)

    # ------------------------------------------------------------ collecting

    def _collect(self) -> None:
        count = 0
        while not self._is_over.wait(0 if count == 0 else INTERVAL_S):
            count += 1
            with suppress(OSError, HTTPException, MsgspecError):
                self._take_samples()
            if count % WRITE_EVERY == 0:  # it may be killed
                self.write()

    def _take_samples(self) -> None:
        connection = UnixConnection(self._directory / MANAGEMENT, TIMEOUT_S)
        try:
            connection.request("GET", SAMPLES)
            response = connection.getresponse()
            body = response.read()
        finally:
            connection.close()
        if response.status == 404:
            self._is_over.set()
            return
        samples = msgpack.decode(body, type=list[VersionSample])
        with self._lock:
            self._history.add_samples(time(), samples)

    # ------------------------------------------------------------ answering

    def _answer(self) -> None:
        with socket.socket(socket.AF_UNIX) as listener, _within(self._directory) as path:
            with suppress(FileNotFoundError):
                (self._directory / SOCKET).unlink()
            listener.bind(path)
            listener.listen()
            while not self._is_over.is_set():
                try:
                    connection, _ = listener.accept()
                except OSError:  # no descriptor is left; the next attempt would fail at once
                    self._is_over.wait(RETRY_S)
                    continue
                with suppress(OSError, MsgspecError), connection:
                    connection.settimeout(TIMEOUT_S)
                    connection.sendall(msgpack.encode(self._respond(_receive(connection))))

    def _respond(self, received: bytes) -> Any:
        question = _question.decode(received)
        with self._lock:
            match question:
                case AskForHistory():
                    return self._history.page(question.fields, question.keys)
                case AskForTraces():
                    return self._history.traces(question.model, question.limit)
                case AskForTrace():
                    return self._history.trace(question.request_id)


class Reader:
    """Asks the collector. Runs in: front-end, in a greenlet."""

    def __init__(self, run_directory: Path) -> None:
        """Ask the collector of the server with *run_directory*."""
        self._directory = run_directory

    def history(self, fields: list[str], keys: list[str] | None = None) -> HistoryPage:
        """Return numbers of versions; none if the observer does not answer."""
        return self._ask(AskForHistory(fields, keys or []), HistoryPage, HistoryPage)

    def traces(self, model: str = "", limit: int = 100) -> list[RequestTraced]:
        """Return the slowest requests of a model, or of all."""
        return self._ask(AskForTraces(model, limit), list[RequestTraced], list)

    def trace(self, request_id: str) -> RequestTraced | None:
        """Return one request, if it is kept."""
        return self._ask(AskForTrace(request_id), RequestTraced | None, lambda: None)

    def _ask(self, question: Struct, kind: Any, nothing: Callable[[], Answer]) -> Answer:
        try:
            with socket.socket(socket.AF_UNIX) as connection, _within(self._directory) as path:
                connection.settimeout(TIMEOUT_S)
                connection.connect(path)
                connection.sendall(msgpack.encode(question))
                connection.shutdown(socket.SHUT_WR)
                answer: Answer = msgpack.decode(_receive(connection), type=kind)
                return answer
        except (OSError, MsgspecError):  # the observer is starting, or another one follows it
            return nothing()


@contextmanager
def _within(directory: Path) -> Iterator[str]:
    """Yield a path of the socket that is short, however long that of *directory* is."""
    descriptor = os.open(directory, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}/{SOCKET}"
    finally:
        os.close(descriptor)


def _receive(connection: socket.socket) -> bytes:
    """Return everything until the other side ends."""
    pieces = []
    while piece := connection.recv(1 << 16):
        pieces.append(piece)
    return b"".join(pieces)
