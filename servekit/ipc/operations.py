# SPDX-License-Identifier: Apache-2.0
"""Operations on a running server: the requests of operators, and the progress of each.

A front-end sends an ``Operate`` to the supervisor; the routing table brings its ``OperationRow``
back, at every step. The command line asks a front-end, over the private socket.
"""

from typing import Annotated, Any

from msgspec import Meta, Struct

__all__ = [
    "AUTOSCALE",
    "DONE",
    "FAILED",
    "KINDS",
    "RUNNING",
    "Load",
    "Operate",
    "Operation",
    "OperationRow",
    "OperationStep",
    "ReloadModels",
    "RollBack",
    "Scale",
    "SetTraffic",
    "Swap",
    "Unload",
]

RUNNING, DONE, FAILED = "running", "done", "failed"  #: the states of an operation and of its steps

Replicas = Annotated[int, Meta(ge=0, le=1024)]
Percent = Annotated[int, Meta(ge=0, le=100)]
Weight = Annotated[int, Meta(ge=0)]
Share = Annotated[float, Meta(ge=0, le=1)]
Seconds = Annotated[float, Meta(ge=0, le=86_400)]


class Load(Struct, tag="load", kw_only=True, forbid_unknown_fields=True):
    """Serve a model that is not served yet, or one more version of a model without any traffic."""

    source: str  #: path or URL
    model: str = ""  #: the name to serve it under; "" takes the manifest's
    settings: dict[str, Any] = {}  #: as in ``[models.NAME]`` of ``servekit.toml``


class Unload(Struct, tag="unload", kw_only=True, forbid_unknown_fields=True):
    """Stop serving a model, or one version of it."""

    model: str
    version: str = ""  #: or an alias; "" is the whole model


class Scale(Struct, tag="scale", kw_only=True, forbid_unknown_fields=True):
    """Change the number of replicas."""

    model: str
    replicas: Replicas | dict[str, Replicas]  #: or ``{"min": 1, "max": 4}``
    stage: str = ""  #: "" is every stage
    version: str = ""  #: "" is every version


class Swap(Struct, tag="swap", kw_only=True, forbid_unknown_fields=True):
    """Replace the default version of a model once the new one has proved itself."""

    model: str
    source: str = ""  #: path or URL of the new version; "" for one that is loaded already
    version: str = ""  #: of one that is loaded already, or an alias
    settings: dict[str, Any] = {}  #: as in ``[models.NAME]`` of ``servekit.toml``
    one_by_one: bool = False  #: replace replica by replica: for where both do not fit in memory
    shift: list[Percent] = []  #: shares of the traffic, one after another
    step_s: Seconds = 5.0  #: how long each share lasts
    watch_s: Seconds = 10.0  #: how long the new version is watched once it has all traffic
    max_error_rate: Share = 0.05  #: rolled back above this share of 5xx responses
    max_latency_s: Seconds = 0.0  #: rolled back above this 99th percentile; 0 sets no bound
    keep_s: Seconds = 60.0  #: how long the old version stays loaded, for a rollback


class RollBack(Struct, tag="rollback", kw_only=True, forbid_unknown_fields=True):
    """Make the version before the default version the default again."""

    model: str


class SetTraffic(Struct, tag="traffic", kw_only=True, forbid_unknown_fields=True):
    """Change which versions answer; ``None`` leaves a part unchanged."""

    model: str
    aliases: dict[str, str] | None = None  #: to versions; "" removes an alias
    weights: dict[str, Weight] | None = None  #: by version or alias; ``{}``: all to the default
    sticky: str | None = None  #: header whose value chooses the version; "" for none
    mirror: str | None = None  #: version that answers copies of the requests; "" for none
    mirror_percent: Percent | None = None


class ReloadModels(Struct, tag="reload", kw_only=True, forbid_unknown_fields=True):
    """Load what has changed of a model, or of all models."""

    model: str = ""


Operation = Load | Unload | Scale | Swap | RollBack | SetTraffic | ReloadModels

AUTOSCALE = "autoscale"  #: a change that the server makes by itself: counted, but no operation
#: the kinds of operations
KINDS = ("load", "unload", "scale", AUTOSCALE, "swap", "rollback", "traffic", "reload")


class Operate(Struct, array_like=True, tag=26):
    """Front-end to supervisor: begin an operation; its progress is in the next tables."""

    id: str  #: made by the front-end
    operation: Operation


class OperationStep(Struct):
    """One step of an operation."""

    name: str  #: such as ``prepare``, ``load``, ``shift 50 %``, ``watch``, ``drain``
    state: str = RUNNING
    detail: str = ""
    began: float = 0.0  #: Unix time
    ended: float = 0.0  #: Unix time; 0 while it runs


class OperationRow(Struct):
    """One operation of the last minutes."""

    id: str
    kind: str  #: the tag of the operation
    model: str
    state: str = RUNNING
    steps: list[OperationStep] = []
    error: str = ""  #: why it failed; what served before still serves
    status: int = 0  #: status of HTTP for the error: 403, 404, 409, 422, 507
    version: str = ""  #: that it has loaded, or made the default
    began: float = 0.0  #: Unix time
    ended: float = 0.0  #: Unix time; 0 while it runs
