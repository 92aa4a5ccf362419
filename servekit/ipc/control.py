# SPDX-License-Identifier: Apache-2.0
"""The messages between the supervisor and its workers, and from the front-ends to it.

As in ``batches``, each message is a tagged Struct; the table for the front-ends is in ``table``.
"""

from msgspec import Struct

from servekit.ipc.crash_reports import HeldRequest
from servekit.ipc.operations import Operate
from servekit.ipc.table import Interface

__all__ = [
    "BootFailed",
    "ControlMessage",
    "FrontEndReady",
    "Hung",
    "Launch",
    "Leaving",
    "Lost",
    "PluginHooks",
    "ProcessRow",
    "Ready",
    "Reload",
    "Retire",
    "Stop",
    "TableTaken",
    "Wanted",
    "WantedProcesses",
    "WorkerMessage",
]


class Launch(Struct, array_like=True, tag=10):
    """Supervisor to worker, once: what to load, and for which replica."""

    directory: str
    manifest: bytes  #: the archive's ``MANIFEST.json``
    replica: int
    replicas: int  #: number of replicas of the model
    generation: int
    threads: int
    max_batch_size: int
    max_answer_bytes: int
    arena_bytes: int  #: shared memory for large answers, per front-end
    large_body_bytes: int  #: smallest answer that is sent through shared memory
    assets: dict[str, str] = {}  #: name to path
    memory_bytes: int = 0  #: limit on the address space; 0 sets none
    files: int = 0  #: limit on descriptors; 0 sets none
    log_format: str = "text"
    log_level: str = "info"
    is_dev: bool = False  #: answers of failed predictions hold their tracebacks
    stage: str = ""  #: name of the stage; "" if the model has no others
    colocated: dict[str, bytes] = {}  #: other stages that this worker loads, to their manifests
    rank: int = 0  #: among the processes of the replica; 0 answers batches
    world_size: int = 1  #: number of processes of the replica
    cpus: list[int] = []  #: that it is pinned to; empty: all
    is_secret: bool = False  #: the model was decrypted: no core dump of the worker is written
    max_concurrency: int = 1  #: inputs at the same time, if the service is async
    busy_poll_s: float = 0.0  #: how long it may wait without sleep; 0: it may not


class Ready(Struct, array_like=True, tag=11):
    """Worker to supervisor: loaded, warmed up, accepting channels."""

    interface: Interface
    load_s: float
    colocated: dict[str, Interface] = {}  #: the other stages that it has loaded


class BootFailed(Struct, array_like=True, tag=12):
    """Worker to supervisor, the last message: its service cannot be loaded."""

    reason: str


class Stop(Struct, array_like=True, tag=13):
    """Supervisor to worker: finish the current batch, then exit."""


class Retire(Struct, array_like=True, tag=15):
    """Supervisor to worker: another one replaces you; exit when every channel is closed."""


class Leaving(Struct, array_like=True, tag=14):
    """Worker to supervisor, the last message: it exits by itself."""

    reason: str


WorkerMessage = Ready | BootFailed | Leaving


class FrontEndReady(Struct, array_like=True, tag=21):
    """Front-end to supervisor: accepting connections."""

    pid: int


class Hung(Struct, array_like=True, tag=22):
    """Front-end to supervisor: this worker exceeded its timeout or stopped answering pings."""

    address: str  #: where the replica listens; the name would not tell a model from the one before
    replica: int
    generation: int
    reason: str


class Lost(Struct, array_like=True, tag=23):
    """Front-end to supervisor: the channel to this worker was closed during a batch."""

    model: str
    replica: int
    generation: int
    requests: list[HeldRequest]


class Reload(Struct, array_like=True, tag=24):
    """Front-end to supervisor: an operator requests a reload, as SIGHUP does."""


class TableTaken(Struct, array_like=True, tag=29):
    """Front-end to supervisor: requests that come now are answered by the table of this number."""

    number: int


class PluginHooks(Struct, array_like=True, tag=25):
    """Front-end to supervisor, first of all: hooks of the observer that plugins implement."""

    hooks: list[str]


class Wanted(Struct, array_like=True, tag=27):
    """Front-end to supervisor: a request waits for a version that is asleep."""

    model: str
    version: str


class ProcessRow(Struct, array_like=True):
    """One process of a plugin."""

    name: str  #: ``oip/grpc``
    module: str
    arguments: list[str]
    is_required: bool  #: the server is not ready without it


class WantedProcesses(Struct, array_like=True, tag=28):
    """Front-end to supervisor, once: processes that plugins have beside the server."""

    processes: list[ProcessRow]


ControlMessage = (
    FrontEndReady
    | Hung
    | Lost
    | Operate
    | PluginHooks
    | Reload
    | TableTaken
    | Wanted
    | WantedProcesses
)
