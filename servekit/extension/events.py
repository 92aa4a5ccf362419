# SPDX-License-Identifier: Apache-2.0
"""The events in the life of a server and its models, which hooks get.

An event is a frozen msgspec ``Struct``: ``msgspec.to_builtins(event)`` makes a dictionary of it,
and ``msgspec.json.encode(event)`` JSON, both with the name of its hook as ``event``. The
supervisor makes them; ``BatchServed`` and ``RequestTraced`` come from the front-ends. Plugins get
them in the observer. Durations are seconds (``_s``); ``time_s`` is seconds since 1970 (UTC).
"""

import re
from typing import Any, Literal

from msgspec import Struct

__all__ = [
    "BatchServed",
    "EventsLost",
    "LifeEvent",
    "LogRecord",
    "MetricFamily",
    "MetricSample",
    "ModelLoaded",
    "ModelUnloaded",
    "NoMoreEvents",
    "RequestTraced",
    "ServerStarted",
    "ServerStopping",
    "Span",
    "TracedBatch",
    "WorkerExited",
    "WorkerReady",
]


def _hook_of(class_name: str) -> str:
    """Return ``worker_exited`` for ``WorkerExited``."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", class_name).lower()


class LifeEvent(Struct, frozen=True, kw_only=True, tag_field="event", tag=_hook_of):
    """Every event has the moment at which it happened."""

    time_s: float

    @property
    def hook(self) -> str:
        """The hook that is called with it."""
        return _hook_of(type(self).__name__)


class ServerStarted(LifeEvent, frozen=True):
    """The first load of every model is over, and the server accepts predictions."""

    version: str  #: version of servekit
    url: str
    pid: int  #: pid of the supervisor
    models: list[str]  #: ``name/version`` of those that were loaded
    failed: list[str]  #: names of the others


class ServerStopping(LifeEvent, frozen=True):
    """The server takes no new requests after its drain delay, and then ends."""

    reason: str  #: ``SIGTERM``, or why the start failed
    drain_delay_s: float
    grace_s: float  #: the longest wait for what is in flight


class ModelLoaded(LifeEvent, frozen=True):
    """A version can answer: one worker of each of its stages is ready."""

    model: str
    version: str
    digest: str  #: SHA-256 of the manifest of an archive; it changes when any file does
    source: str  #: the path or URL that the operator named
    replicas: int
    load_s: float  #: since its replicas were started
    replaces: str = ""  #: the version that served before; "" if there was none


class ModelUnloaded(LifeEvent, frozen=True):
    """The last worker of a version that had been loaded is gone."""

    model: str
    version: str
    digest: str
    served_s: float  #: since it was loaded
    reason: str  #: ``replaced``, ``unloaded``, ``asleep`` or ``stopped``


class WorkerReady(LifeEvent, frozen=True):
    """A worker has loaded its service and can answer."""

    model: str
    version: str
    stage: str  #: "" if the model has no others
    replica: int
    generation: int  #: 1 for the first worker of the replica; each later one is one more
    pid: int
    load_s: float


class WorkerExited(LifeEvent, frozen=True):
    """The process of a worker ended, whatever the reason, or could not be started."""

    model: str
    version: str
    stage: str  #: "" if the model has no others
    replica: int
    generation: int
    pid: int | None  #: ``None`` if it could not be started
    exit_code: int  #: below 0: minus the number of the signal that ended it
    signal: str  #: ``SIGSEGV``; "" if no signal ended it
    cause: str  #: one of ``servekit.ipc.tally.CAUSES``, or ``stopped`` if that was asked for
    reason: str  #: the likely cause in words; "" if the exit code says it all
    lived_s: float
    served_s: float | None  #: ``None`` if it was never ready
    restart_s: float | None  #: until the next worker is started; ``None`` if there is none
    has_given_up: bool  #: its replica failed too often: one try now and then
    request_ids: list[str] = []  #: of the batch that it held
    last_lines: list[str] = []  #: of its stdout and stderr
    source: str = ""  #: the path or URL that the operator named


class BatchServed(LifeEvent, frozen=True):
    """A worker answered a batch. A sample: a few of each model and stage every second."""

    model: str
    version: str
    stage: str  #: "" if the model has no others
    replica: int
    size: int  #: inputs of the batch, or rows of its inputs
    batches: int  #: batches since the last sample of this stage from this front-end, this one too
    queue_s: float  #: how long its oldest task had waited
    decode_s: float
    predict_s: float
    encode_s: float
    statuses: dict[int, int]  #: HTTP status to number of tasks


class Span(Struct, frozen=True, kw_only=True):
    """A part of the time of a request."""

    #: ``receive`` the rest of the request, ``queue`` for a worker, ``ipc`` to the worker and back,
    #: ``decode``, ``predict``, ``encode``, ``send`` the response; or a name that the service gave
    name: str
    stage: str = ""  #: "" if the model has no others
    start_s: float  #: since ``time_s`` of the event
    duration_s: float
    batch: int = -1  #: place in ``batches`` of the event; -1 if the worker has no part in it
    attributes: dict[str, str | int | float | bool] = {}
    id: str = ""  #: 16 hexadecimal digits, of a span that the service gave
    parent: str = ""  #: of such a span: the id of the one around it, or ``span`` of the batch


class TracedBatch(Struct, frozen=True, kw_only=True):
    """A batch that a request was in, or the stream of one."""

    id: str  #: unique on the server
    stage: str  #: "" if the model has no others
    replica: int
    pid: int  #: the process of its worker
    size: int  #: inputs of the batch, or rows of its inputs
    request_ids: list[str]  #: the first 64
    traceparents: list[str]  #: the members that have one
    #: 16 hexadecimal digits: the work of the worker, around the spans of its service. It belongs
    #: to the trace of the first sampled member; "" if no member is sampled
    span: str = ""
    dropped: int = 0  #: spans of the service beyond the limit


class RequestTraced(LifeEvent, frozen=True):
    """A request is over, and this is where its time went. ``time_s`` is its arrival.

    Front-ends send the requests that are sampled, and the slowest ones.
    """

    request_id: str
    #: W3C Trace Context: the trace, the span that the request is on this server, and the flags;
    #: "" if it belongs to no trace
    traceparent: str
    parent_span: str  #: the span of the client; "" if it sent no ``traceparent``
    model: str
    version: str
    method: str
    path: str  #: without the query
    status: int  #: 0: the client disconnected before the response
    reason: Literal["slow", "sampled"]  #: why it is traced
    duration_s: float  #: from its first byte to the last byte that the client's socket took
    spans: list[Span]  #: in the order in which they began
    batches: list[TracedBatch]
    content_type: str = ""
    body: bytes | None = None  #: only if the operator allows it, and up to the size they allow


class LogRecord(Struct, frozen=True, kw_only=True, tag_field="event", tag="log_record"):
    """One line of the server's log."""

    time_s: float
    level: str  #: ``debug``, ``info``, ``warning`` or ``error``
    name: str  #: one word for machines, such as ``worker_exited``; ``output``: a process printed it
    subject: str  #: ``digits/0``, ``digits``, ``front-end`` or ``servekit``
    text: str
    fields: dict[str, Any] = {}


class MetricSample(Struct, frozen=True):
    """One number of a metric."""

    name: str  #: name of the metric, or with ``_total``, ``_bucket``, ``_sum`` or ``_count``
    labels: dict[str, str]
    value: float


class MetricFamily(Struct, frozen=True):
    """A metric with all its samples, as ``/metrics`` shows it."""

    name: str
    kind: str  #: ``counter``, ``gauge``, ``histogram``, ``summary`` or ``unknown``
    help: str
    samples: list[MetricSample]


class EventsLost(Struct, frozen=True, tag_field="event", tag="events_lost"):
    """To the observer, before the next event: so many did not reach it."""

    count: int


class NoMoreEvents(Struct, frozen=True, tag_field="event", tag="no_more_events"):
    """To the observer, last of all: the server ends."""
