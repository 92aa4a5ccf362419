# SPDX-License-Identifier: Apache-2.0
"""Reads events from the sockets and hands them to the subscribers, and metrics now and then."""

import logging
import selectors
import socket
from collections.abc import Sequence
from pathlib import Path
from threading import Event, Thread
from time import sleep

import msgspec

from servekit.extension.events import (
    BatchServed,
    EventsLost,
    LogRecord,
    ModelLoaded,
    ModelUnloaded,
    NoMoreEvents,
    ServerStarted,
    ServerStopping,
    WorkerExited,
    WorkerReady,
)
from servekit.ipc.trace_notes import TraceNotes
from servekit.observer.metrics import MetricsUnavailable, read_metrics
from servekit.observer.subscriber import Subscriber
from servekit.observer.traces import events_of

__all__ = ["EventReceiver", "export_metrics"]

RETRY_S = 0.1  #: until the next attempt to accept a connection
MESSAGE_BYTES = 1 << 18  #: more than the kernel lets a sender send at once

Message = (
    ServerStarted | ServerStopping | ModelLoaded | ModelUnloaded | WorkerReady | WorkerExited
    | LogRecord | EventsLost | NoMoreEvents | TraceNotes
)  # fmt: skip

log = logging.getLogger("servekit.observer")


class EventReceiver:
    """Accepts connections of the supervisor and of the front-ends."""

    def __init__(self, listener: socket.socket, subscribers: Sequence[Subscriber]) -> None:
        """Read nothing yet. *listener* is of the kind ``SOCK_SEQPACKET``."""
        self._listener = listener
        self._subscribers = subscribers
        self._decode = msgspec.msgpack.Decoder(Message | list[BatchServed]).decode
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ)
        self._connections: set[socket.socket] = set()
        self._has_ended = False

    def run(self) -> None:
        """Read until the supervisor says that there are no more events."""
        while not self._has_ended:
            for key, _ in self._selector.select():
                if key.fileobj is self._listener:
                    self._accept()
                else:
                    assert isinstance(key.fileobj, socket.socket)
                    self._read(key.fileobj)
        for connection in self._connections:
            connection.close()
        self._selector.close()

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:  # no descriptor is left, or the peer has disconnected
            sleep(RETRY_S)  # the listener stays readable: without a pause the loop would spin
            return
        self._connections.add(connection)
        self._selector.register(connection, selectors.EVENT_READ)

    def _read(self, connection: socket.socket) -> None:
        try:
            received = connection.recv(MESSAGE_BYTES)
        except OSError:
            received = b""
        if received:
            self._take(received)
        else:
            self._connections.remove(connection)
            self._selector.unregister(connection)
            connection.close()

    def _take(self, received: bytes) -> None:
        try:
            message = self._decode(received)
        except msgspec.DecodeError as error:
            log.warning("an event cannot be read: %s", error)
            return
        match message:
            case TraceNotes():
                self._offer("request_traced", *events_of(message))
            case list():  # front-ends send them so
                self._offer("batch_served", *message)
            case NoMoreEvents():
                self._has_ended = True
            case EventsLost():
                for subscriber in self._subscribers:
                    subscriber.lose(message.count)
            case LogRecord():
                self._offer("export_logs", message)
            case _:
                self._offer(message.hook, message)

    def _offer(self, hook: str, *messages: object) -> None:
        for subscriber in self._subscribers:
            subscriber.offer(hook, *messages)


def export_metrics(
    subscribers: Sequence[Subscriber], path: Path, interval_s: float, end: Event
) -> Thread:
    """Offer all metrics to *subscribers* at every interval, in a thread, until *end* is set."""

    def run() -> None:
        has_failed = False
        while not end.wait(interval_s):
            try:
                metrics = read_metrics(path)
            except MetricsUnavailable as error:
                if not has_failed:  # front-ends may be starting
                    log.warning("cannot read the metrics: %s", error)
                has_failed = True
                continue
            has_failed = False
            for subscriber in subscribers:
                subscriber.offer("export_metrics", metrics)

    thread = Thread(target=run, name="metrics", daemon=True)
    thread.start()
    return thread
