# SPDX-License-Identifier: Apache-2.0
"""What crosses between the supervisor and its workers, and from the front-ends to it.

As in ``batches``, each message is a tagged Struct; the table, which goes to the front-ends, has a
module of its own.
"""

from msgspec import Struct

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
    "Ready",
    "Reload",
    "Retire",
    "Stop",
    "WorkerMessage",
]


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


class PluginHooks(Struct, array_like=True, tag=25):
    """Front-end to supervisor, first of all: hooks of the observer that plugins implement."""

    hooks: list[str]


ControlMessage = FrontEndReady | Hung | Lost | PluginHooks | Reload
