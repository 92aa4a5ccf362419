# SPDX-License-Identifier: Apache-2.0
"""The routing table: models, replicas and routes, from the supervisor to the front-ends."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field, structs

from servekit.ipc.batches import QUERY
from servekit.ipc.operations import OperationRow
from servekit.ipc.response_style import ResponseStyle
from servekit.ipc.tally import Tally

__all__ = [
    "EVERYTHING",
    "PREPARING",
    "SERVING",
    "STATES",
    "EndpointRow",
    "Interface",
    "ModelRow",
    "ReplicaRow",
    "RouteRow",
    "SettingRow",
    "StageRow",
    "StepRow",
    "Table",
    "TableUpdate",
    "TrafficRow",
    "path_of_version",
    "stage_rows",
]


class Interface(Struct):
    """The inputs and outputs of a loaded service, for the API descriptions."""

    signature: dict[str, Any] | None = None  #: as in ``model.toml``
    input_schema: dict[str, Any] = {}  #: JSON Schema of one input; ``{}`` takes anything
    output_schema: dict[str, Any] = {}  #: JSON Schema of one output
    schema_definitions: dict[str, Any] = {}  #: what ``#/$defs/NAME`` in the two refers to
    consumes: list[str] = []  #: media types, best first; none where only endpoints are known
    produces: list[str] = []
    request_headers: list[str] = []  #: in lower case: those that the service reads
    request_query: list[str] = []  #: parameters of the query that it reads
    endpoints: list["EndpointRow"] = []  #: other methods that it serves
    task: str = ""  #: ``Service.task``
    rows: bool = False  #: requests hold the arrays of the signature with a batch axis
    is_async: bool = False  #: its methods are coroutines: they take one input, several at a time

    @property
    def asked(self) -> list[str]:
        """The headers and query parameters that a front-end passes on with each request."""
        return [*self.request_headers, *(QUERY + name for name in self.request_query)]


class EndpointRow(Struct):
    """A method of a service that has its own path."""

    name: str
    path: str  #: "" is ``/<model>/<name>``
    interface: Interface
    envelope: bool | None = None  #: as in ``model.toml``; ``None``: that of the model
    stream: dict[str, Any] | None = None  #: the same
    media_type: str | None = None  #: the same
    get: bool = False  #: as in ``RouteRow``


STARTING, SERVING = "starting", "serving"
#: the states of a replica: each ``State`` of ``supervisor/replicas/lifecycle.py``, in lower case
STATES = (STARTING, SERVING, "backoff", "failed", "stopping", "stopped")


class ReplicaRow(Struct):
    """One replica as the front-ends see it."""

    index: int
    generation: int  #: grows by one with each worker that fills the replica
    address: str  #: path of the replica's AF_UNIX listener
    state: str  #: one of ``STATES``
    reason: str = ""  #: why it is not serving
    pid: int = 0  #: of the worker that fills it; 0 if there is none
    next_try: float = 0.0  #: when the next worker will be started, if that is known
    stage: str = ""  #: that it serves; "" if the model has no others
    followers: list[int] = []  #: the pids of its ranks above 0

    @property
    def is_serving(self) -> bool:
        """Whether its worker takes tasks."""
        return self.state == SERVING


class StageRow(Struct):
    """One stage of a model that has several: what differs from the others."""

    name: str
    max_batch_size: int
    max_delay_s: float
    predict_timeout_s: float
    interface: Interface | None = None  #: known once a replica has been ready
    colocated: dict[str, Interface | None] = {}  #: stages that its workers serve too
    max_concurrency: int = 1  #: inputs that a worker has at the same time, if its service is async
    max_batch_cost: float = 0.0  #: 0: batches are not limited by the cost of their inputs


class StepRow(Struct, omit_defaults=True):
    """One step of a route, as ``model.toml`` names it."""

    stage: str = ""  #: a stage of the same model
    model: str = ""  #: in place of a stage
    name: str = ""  #: the name that later steps use, if not its stage or model
    inputs: list[str] = []  #: names of earlier steps, or ``request``; none: the step before
    each: bool = False  #: the input is a list, and each element a task
    target: str = ""  #: a method of the stage's service; "" is ``predict``

    @property
    def label(self) -> str:
        """The name that later steps use."""
        return self.name or self.stage or self.model


class RouteRow(Struct):
    """A path of a model, and the steps that answer there."""

    path: str
    steps: list[StepRow]
    problem: str = ""  #: why nothing answers there
    instances: bool = False  #: the body is ``{"instances": [...]}``, and each is a separate run
    style: ResponseStyle | None = None  #: of its responses, if it is not that of other routes
    get: bool = False  #: it also answers GET, with the parameters of the query as the input


EVERYTHING = "*"  #: stands for all headers and query parameters
#: the ``reason`` of a row whose archive is unpacked, or whose assets are fetched
PREPARING = "loading"


class TrafficRow(Struct):
    """How the requests of a model are split between its versions."""

    aliases: dict[str, str] = {}  #: to versions
    weights: dict[str, int] = {}  #: by version; ``{}``: the default version answers everything
    sticky: str = ""  #: header whose value chooses among the weights; "" for none
    mirror: str = ""  #: version that answers copies of the requests; "" for none
    mirror_percent: int = 100


class SettingRow(Struct):
    """One value that a model is served with."""

    name: str  #: as in ``servekit.toml``: ``batching.max_batch_size``
    value: Any
    source: str  #: ``default``, ``archive``, ``servekit.toml``, ``--set``, ``run time`` ...


class ModelRow(Struct):
    """One model of the routing table, by its default version."""

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
    colocated: dict[str, Interface | None] = {}  #: of that row: as in ``StageRow``
    versions: list["ModelRow"] = []  #: the other loaded versions; their own list is empty
    traffic: TrafficRow = field(default_factory=TrafficRow)
    settings: list[SettingRow] = []
    may_sleep: bool = False  #: it is unloaded while nobody needs it
    is_asleep: bool = False  #: it has no replicas until a request comes
    refusal: str = ""  #: why it sleeps though a request asked for it
    refusals: int = 0  #: how often that has happened
    number: int = 0  #: tells it apart from the other models; names may not be known yet
    max_concurrency: int = 1  #: as in ``StageRow``
    directory: str = ""  #: where its files are
    max_batch_cost: float = 0.0  #: as in ``StageRow``

    @property
    def label(self) -> str:
        """The model, and the stage if this is the row of one."""
        return f"{self.name}:{self.stage}" if self.stage else self.name

    @property
    def own_steps(self) -> list[StepRow]:
        """The steps of the model's own path; none if it has one stage."""
        path = f"/{self.name}/predict"
        return next((route.steps for route in self.routes if route.path == path), [])

    @property
    def is_awake(self) -> bool:
        """Whether a replica serves."""
        return any(replica.is_serving for replica in self.replicas)

    @property
    def is_ready(self) -> bool:
        """Whether each stage has a replica that serves."""
        return all(stage.is_awake for stage in stage_rows(self))

    @property
    def is_waking(self) -> bool:
        """Whether it is loaded because a request came, and does not serve yet."""
        is_loading = any(replica.state == STARTING for replica in self.replicas)
        return self.may_sleep and is_loading and not self.is_awake

    def find_version(self, name: str) -> "ModelRow | None":
        """Return the row of the version or the alias *name*."""
        version = self.traffic.aliases.get(name, name)
        return next((each for each in (self, *self.versions) if each.version == version), None)

    def without_version(self, version: str) -> str:
        """Return the error text for clients that ask for a *version* that is not loaded."""
        names = [each.version for each in (self, *self.versions)]
        aliases = [f"{a} ({name})" for a, name in self.traffic.aliases.items() if name in names]
        return f"{self.name} has no version {version}; it has {', '.join([*names, *aliases])}"

    @property
    def asked(self) -> list[str]:
        """Headers and query parameters that the services of its workers want to see.

        A model that has never been loaded gets all of them: nobody knows which it reads.
        """
        if self.interface is None and self.may_sleep:
            return [EVERYTHING]
        interfaces = filter(None, (self.interface, *self.colocated.values()))
        return sorted({name for each in interfaces for name in each.asked})


def path_of_version(model: str, version: str, path: str) -> str:
    """Return the path where *version* of *model* does what the default version does at *path*."""
    own = f"/{model}"
    rest = path.removeprefix(own) if path.startswith(f"{own}/") else path
    return f"{own}/versions/{version}{rest}"


def stage_rows(row: ModelRow) -> list[ModelRow]:
    """Return a row for each stage with workers, as if it were a model."""
    if not row.stages:
        return [row]
    return [
        structs.replace(
            row,
            stage=stage.name,
            replicas=[each for each in row.replicas if each.stage == stage.name],
            max_batch_size=stage.max_batch_size,
            max_delay_s=stage.max_delay_s,
            max_concurrency=stage.max_concurrency,
            max_batch_cost=stage.max_batch_cost,
            predict_timeout_s=stage.predict_timeout_s,
            interface=stage.interface,
            colocated=stage.colocated,
        )
        for stage in row.stages
    ]


class Table(Struct):
    """The models and the state of the server, for the front-ends."""

    models: list[ModelRow]
    is_draining: bool = False
    missing_daemons: list[str] = []  #: required daemons that do not run
    tally: Tally = field(default_factory=Tally)
    operations: list[OperationRow] = []  #: those of the last minutes, newest last
    missing_processes: list[str] = []  #: required processes of plugins that do not run
    front_ends: int = 0  #: that are connected: old and new ones while a reload replaces them


class TableUpdate(Struct, array_like=True, tag=20):
    """Supervisor to front-end, at every change: the table, and in it only the models that changed.

    The first update of a connection has all models.
    """

    table: Table
    numbers: list[int]  #: the number of each model, in their order
    confirm: int = 0  #: the front-end answers with a ``TableTaken`` of this number; 0: it does not

    @classmethod
    def since(cls, known: Mapping[int, ModelRow], table: Table, confirm: int = 0) -> "TableUpdate":
        """Return the update for a front-end whose models are *known*, by number."""
        changed = [row for row in table.models if known.get(row.number) != row]
        return cls(
            structs.replace(table, models=changed), [row.number for row in table.models], confirm
        )

    def applied(self, known: Mapping[int, ModelRow]) -> Table:
        """Return the new table. The rows of models that did not change are the same objects.

        :raises ValueError: *known* lacks a model, so an update was lost.
        """
        rows = {**known, **{row.number: row for row in self.table.models}}
        try:
            models = [rows[number] for number in self.numbers]
        except KeyError as error:
            raise ValueError(f"table: no row for the model {error}") from None
        return structs.replace(self.table, models=models)
