# SPDX-License-Identifier: Apache-2.0
"""What crosses between the supervisor, the front-ends and the workers.

Every message is a tagged msgspec ``Struct``, encoded as a msgpack array and checked
against its types when it is decoded; nothing is pickled. Moments are seconds of
``time.monotonic()``, which all processes of one machine share.
"""

from typing import Any

from msgspec import Struct, field, structs

__all__ = [
    "CAUSES",
    "IDENTITY",
    "INSTANCES",
    "PREDICT",
    "PREPARING",
    "QUERY",
    "RELOADS",
    "RUN",
    "SPLIT",
    "STAGE",
    "STATES",
    "VALUE",
    "VALUES",
    "Answer",
    "BootFailed",
    "ControlMessage",
    "EndpointRow",
    "Freed",
    "FrontEndReady",
    "Hello",
    "Hung",
    "Interface",
    "Item",
    "Launch",
    "Leaving",
    "Lost",
    "ModelRow",
    "Open",
    "Part",
    "Parts",
    "Ping",
    "Pong",
    "Predict",
    "Ready",
    "Reload",
    "ReplicaRow",
    "Reply",
    "ReplyMessage",
    "RequestMessage",
    "Retire",
    "RouteRow",
    "Slab",
    "StageRow",
    "Step",
    "Stop",
    "Table",
    "Tally",
    "Welcome",
    "WorkerMessage",
    "stage_rows",
]


#: before the name of a parameter of the query, among headers, whose names cannot begin so
QUERY = "?"

#: media type of an output on its way to the next step of its request
VALUE = "application/vnd.servekit.value"
#: of a list, each element of which will be an input of its own
VALUES = "application/vnd.servekit.values"


PREDICT = "predict"  #: the stage that is the model's own service
IDENTITY = "="  #: in place of a method: what is read is the output
STAGE = ":"  #: in a target, between a stage and a method of its service
RUN = ">"  #: in a target, between those that run one after another
SPLIT = "[]"  #: the same, of a list
INSTANCES = "{}"  #: the same, of a mapping with a list of instances


class Slab(Struct, array_like=True, frozen=True):
    """A large body where it lies: a range of the sender's arena."""

    offset: int
    size: int  #: bytes


#: body, ``Content-Type``, ``Accept`` (both as received), request id, deadline
Item = tuple[bytes | Slab, bytes, bytes, str, float]

#: name of a ``ServekitError`` class or "", media type, body. The body of an error is
#: JSON: ``{"detail": str, "errors": [{"field": str, "message": str}]}``
Answer = tuple[str, str, bytes | Slab]


# ---------------------------------------------------------------- front-end <-> worker


class Predict(Struct, array_like=True, tag=1):
    """Front-end to worker: one batch, in arrival order."""

    batch: int  #: from 1, and grows: 0 marks nobody as cancelled
    items: list[Item]
    freed: list[int] = []  #: offsets of answers' slabs that the clients have
    #: by place: those that the service asked for, and with ``QUERY`` parameters of the query
    headers: dict[int, dict[str, str]] = {}
    #: what each item is for, or the one that all are for; none: all for ``predict``. A target
    #: is a method, or ``STAGE:METHOD`` of a worker of several stages, or a run of those: ``a:>b:``
    targets: list[str] = []


class Reply(Struct, array_like=True, tag=2):
    """Worker to front-end: the answers of one batch, in the order of its items."""

    batch: int
    answers: list[Answer]
    decode_s: float
    predict_s: float
    encode_s: float
    held: list[int] = []  #: offsets of the batch's slabs that the service still looks at
    is_last: bool = False  #: the worker leaves: whoever sends it another batch loses it
    #: by place: status and headers of answers that have their own
    responses: dict[int, tuple[int, list[tuple[str, str]]]] = {}
    steps: dict[str, float] = {}  #: of a worker of several stages: seconds that each of them took


class Hello(Struct, array_like=True, tag=3):
    """Worker to front-end, first of all: who I am; its answers' arena comes along."""

    generation: int
    slots: int = 0  #: streams that I hold at once; 0: I answer batches


class Welcome(Struct, array_like=True, tag=6):
    """Front-end to worker, first of all; the arena of the model's bodies comes along."""


class Open(Struct, array_like=True, tag=8):
    """Front-end to a worker that streams: begin one more stream."""

    stream: int  #: from 1, and grows; marks its place as cancelled
    place: int  #: below ``slots``, of no other stream of the channel that has not ended
    item: Item
    until: float  #: the deadline of its last output; that of ``item`` is of the first
    freed: list[int] = []  #: as in ``Predict``
    headers: dict[str, str] = {}  #: as in ``Predict``, of the one request
    target: str = ""  #: as in ``Predict``: what is no stream is answered at once


class Part(Struct, array_like=True):
    """What one turn brought for one stream."""

    stream: int
    media_type: str  #: of ``STREAM_FORMATS``; "" if the client takes one answer at the end
    body: bytes  #: the outputs, as that writes them
    outputs: int
    end: Answer | None = None  #: an error, the one answer, or all "" at the end of the outputs
    response: tuple[int, list[tuple[str, str]]] | None = None  #: of ``end``: as in ``Reply``
    steps: dict[str, float] = {}  #: as in ``Reply``, of stages that are over since the last part


class Parts(Struct, array_like=True, tag=9):
    """Worker to front-end: one turn over all its streams; empty now and then, as a sign of life."""

    parts: list[Part]


class Freed(Struct, array_like=True, tag=7):
    """Either way: nobody looks at the slabs at these offsets of your arena any more."""

    offsets: list[int]


class Ping(Struct, array_like=True, tag=4):
    """Front-end to an idle worker: do you still answer?"""


class Pong(Struct, array_like=True, tag=5):
    """Worker to front-end; *reason* is why the service's ``ping`` failed, or ""."""

    reason: str


RequestMessage = Predict | Ping | Welcome | Freed | Open
ReplyMessage = Reply | Hello | Pong | Freed | Parts


# ---------------------------------------------------------------- supervisor <-> worker


class Launch(Struct, array_like=True, tag=10):
    """Supervisor to worker, once: what to load and who you are."""

    directory: str
    manifest: bytes  #: the archive's ``MANIFEST.json``
    replica: int
    replicas: int  #: of the model
    generation: int
    threads: int
    max_batch_size: int
    max_answer_bytes: int
    arena_bytes: int  #: shared memory for large answers, per front-end
    large_body_bytes: int  #: answers from this size on go by shared memory
    assets: dict[str, str] = {}  #: name to path
    memory_bytes: int = 0  #: limit on the address space; 0 sets none
    files: int = 0  #: limit on descriptors; 0 sets none
    log_format: str = "text"
    log_level: str = "info"
    is_dev: bool = False  #: answers of failed predictions hold their tracebacks
    stage: str = ""  #: of the model; "" if it has no others
    beside: dict[str, bytes] = {}  #: stages that this worker loads too, and their manifests
    handed_on: list[str] = []  #: stages whose outputs never leave this worker


class Interface(Struct):
    """What a loaded service takes and gives; feeds the API descriptions."""

    signature: dict[str, Any] | None = None  #: as in ``model.toml``
    input_schema: dict[str, Any] = {}  #: JSON Schema of one input; ``{}`` takes anything
    output_schema: dict[str, Any] = {}  #: JSON Schema of one output
    schema_definitions: dict[str, Any] = {}  #: what ``#/$defs/NAME`` in the two refers to
    consumes: list[str] = []  #: media types, best first; none where only endpoints are known
    produces: list[str] = []
    request_headers: list[str] = []  #: in lower case: those that the service wants to see
    request_query: list[str] = []  #: parameters of the query that it wants to see
    endpoints: list["EndpointRow"] = []  #: other methods that it serves

    @property
    def asked(self) -> list[str]:
        """What a front-end picks of each request, besides its body."""
        return [*self.request_headers, *(QUERY + name for name in self.request_query)]


class EndpointRow(Struct):
    """A method of a service that answers at a path of its own."""

    name: str
    path: str  #: "" is ``/<model>/<name>``
    interface: Interface


class Ready(Struct, array_like=True, tag=11):
    """Worker to supervisor: loaded, warmed up, accepting channels."""

    interface: Interface
    load_s: float
    beside: dict[str, Interface] = {}  #: of the other stages that it has loaded


class BootFailed(Struct, array_like=True, tag=12):
    """Worker to supervisor: the last thing a worker says when its service cannot be loaded."""

    reason: str


class Stop(Struct, array_like=True, tag=13):
    """Supervisor to worker: finish the batch you hold, then leave."""


class Retire(Struct, array_like=True, tag=15):
    """Supervisor to worker: another takes your place; leave when every channel is closed."""


class Leaving(Struct, array_like=True, tag=14):
    """Worker to supervisor: the last thing a worker says that leaves without being told to."""

    reason: str


WorkerMessage = Ready | BootFailed | Leaving


# ---------------------------------------------------------------- supervisor <-> front-end


class ReplicaRow(Struct):
    """One replica as the front-ends see it."""

    index: int
    generation: int  #: grows by one with each worker that fills the replica
    address: str  #: path of the replica's AF_UNIX listener
    state: str  #: a ``State`` of ``supervisor/lifecycle.py``, in lower case
    reason: str = ""  #: why it is not serving
    pid: int = 0  #: of the worker that fills it; 0 if there is none
    next_try: float = 0.0  #: when the next worker will be started, if that is known
    stage: str = ""  #: that it serves; "" if the model has no others


class StageRow(Struct):
    """One stage of a model that has several: what differs from the others."""

    name: str
    max_batch_size: int
    max_delay_s: float
    predict_timeout_s: float
    interface: Interface | None = None  #: known once a replica has been ready
    beside: dict[str, Interface | None] = {}  #: stages that its workers serve too


class Step(Struct, omit_defaults=True):
    """One step of a route, as ``model.toml`` names it."""

    stage: str = ""  #: of the same model
    model: str = ""  #: in place of a stage
    name: str = ""  #: what later steps call it, if not by its stage or model
    inputs: list[str] = []  #: names of earlier steps, or ``request``; none: the step before
    each: bool = False  #: the input is a list, and each element a task
    target: str = ""  #: a method of the stage's service; "" is ``predict``

    @property
    def label(self) -> str:
        """What later steps call it."""
        return self.name or self.stage or self.model


class RouteRow(Struct):
    """A path of a model, and the steps that answer there."""

    path: str
    steps: list[Step]
    problem: str = ""  #: why nothing answers there
    instances: bool = False  #: the body is ``{"instances": [...]}``, and each goes by itself


#: the ``reason`` of a row whose archive is unpacked, or whose assets are fetched
PREPARING = "loading"


class ModelRow(Struct):
    """One model of the routing table."""

    name: str
    version: str
    description: str
    replicas: list[ReplicaRow]
    max_batch_size: int
    max_delay_s: float
    predict_timeout_s: float
    capacity: int  #: tasks that may wait
    reason: str = ""  #: why the model cannot be loaded at all; PREPARING: not yet
    manifest: dict[str, Any] = {}
    interface: Interface | None = None  #: known once a replica has been ready
    may_retry: bool = False  #: a request whose worker died may be sent to another one
    stages: list[StageRow] = []  #: none: the row is that of the only one
    routes: list[RouteRow] = []  #: besides ``/<name>/predict`` by the only stage
    stage: str = ""  #: this is the row of one stage, made by ``stage_rows``
    beside: dict[str, Interface | None] = {}  #: of that row: as in ``StageRow``

    @property
    def label(self) -> str:
        """The model, and the stage if this is the row of one."""
        return f"{self.name}:{self.stage}" if self.stage else self.name


def stage_rows(row: ModelRow) -> list[ModelRow]:
    """Return a row for each stage of a model with workers, as if it were a model of its own."""
    if not row.stages:
        return [row]
    return [
        structs.replace(
            row,
            stage=stage.name,
            replicas=[each for each in row.replicas if each.stage == stage.name],
            max_batch_size=stage.max_batch_size,
            max_delay_s=stage.max_delay_s,
            predict_timeout_s=stage.predict_timeout_s,
            interface=stage.interface,
            beside=stage.beside,
        )
        for stage in row.stages
    ]


#: what the state of a replica, the cause of a crash and the result of a reload may be
STATES = ("starting", "serving", "backoff", "failed", "stopping", "stopped")
CAUSES = (
    *("exited", "hung", "killed", "load_failed", "load_timeout", "not_started"),
    *("out_of_memory", "signal"),
)
RELOADS = ("loaded", "unchanged", "failed")


class Tally(Struct):
    """What the supervisor has counted since it began."""

    restarts: dict[str, int] = {}  #: by model
    crashes: dict[str, dict[str, int]] = {}  #: by model and cause
    reloads: dict[str, int] = {}  #: by result

    def restarted(self, model: str) -> None:
        """Count a worker that is started in place of another."""
        self.restarts[model] = self.restarts.get(model, 0) + 1

    def crashed(self, model: str, cause: str) -> None:
        """Count a worker that ended though nobody wanted it to, or a failed load."""
        causes = self.crashes.setdefault(model, {})
        causes[cause] = causes.get(cause, 0) + 1

    def reloaded(self, result: str) -> None:
        """Count what came of the reload of one model."""
        self.reloads[result] = self.reloads.get(result, 0) + 1


class Table(Struct, array_like=True, tag=20):
    """Supervisor to front-end, whole, at every change."""

    models: list[ModelRow]
    is_draining: bool = False
    missing_daemons: list[str] = []  #: required ones that do not run
    tally: Tally = field(default_factory=Tally)


class FrontEndReady(Struct, array_like=True, tag=21):
    """Front-end to supervisor: accepting connections."""

    pid: int


class Hung(Struct, array_like=True, tag=22):
    """Front-end to supervisor: this worker holds a batch past its timeout, or its tongue."""

    model: str
    replica: int
    generation: int
    reason: str


class Lost(Struct, array_like=True, tag=23):
    """Front-end to supervisor: the channel to this worker ended with a batch inside."""

    model: str
    replica: int
    generation: int
    request_ids: list[str]


class Reload(Struct, array_like=True, tag=24):
    """Front-end to supervisor: an operator asks for what SIGHUP does."""


ControlMessage = FrontEndReady | Hung | Lost | Reload
