# SPDX-License-Identifier: Apache-2.0
"""The messages between the supervisor and the children that prepare and watch models."""

from typing import Any, Final

import msgspec

from servekit.extension.archives import Policy
from servekit.ipc.table import SettingRow
from servekit.settings import Settings
from servekit.settings.deployments import Deployment, ReplicaRange

__all__ = [
    "FileChanged",
    "PrepareOutcome",
    "PrepareRequest",
    "PreparedModel",
    "PreparedStage",
    "WatchBegan",
    "WatchFiles",
    "policy_of",
]

ORIGIN: Final = ("path", "sha256")  #: settings that say where a model is, not what it does


def policy_of(settings: Settings) -> Policy:
    """Return the policy that *settings* have for every archive."""
    rules = tuple(filter(None, settings.policy.split(",")))
    return Policy(rules=rules, trusted_keys=settings.trusted_keys)


class PrepareRequest(msgspec.Struct, array_like=True):
    """To the child: what to prepare."""

    path: str  #: or a URL that a plugin opens
    name: str = ""  #: the name to serve it under; "" keeps the manifest's
    cache_dir: str = ""  #: "" takes the user's
    install_requirements: bool = False
    fetch_assets: bool = False
    worker_user: str = ""  #: a user who must be able to read it; "" is our own
    scratch: str = ""  #: a directory that may be made, for what a plugin gets from a URL
    required_plugins: list[str] = []
    policy: Policy = Policy()
    deployments: list[Deployment] = []  #: the operator's settings, the strongest last
    memory: str = ""  #: a directory in memory that may be made, for a decrypted archive
    archive_keys: list[bytes] = []  #: secret


class PreparedStage(msgspec.Struct, kw_only=True):
    """One stage of a model; a model without stages has one with the name ""."""

    name: str
    manifest: bytes  #: a manifest with this stage as the whole model
    replicas: int
    ranks: int = 1  #: processes of a replica
    max_batch_size: int
    max_delay_s: float
    max_concurrency: int = 1  #: inputs at the same time, if the service is async
    max_batch_cost: float = 0.0  #: 0: batches are not limited by the cost of their inputs
    predict_timeout_s: float
    load_timeout_s: float
    environments: list[dict[str, str]]  #: for the replicas, in turn
    colocated: list["PreparedStage"] = []  #: stages that the same workers load
    range: ReplicaRange | None = None  #: if the number of replicas follows the load
    cpus: list[int] = []  #: that its processes share, each pinned to its own; empty: not pinned
    threads: int = 0  #: of each process; 0: its share of the cores
    preload: bool = False  #: workers come from a parent that has imported the service
    max_memory: int = 0  #: bytes; a replica with more private memory is replaced; 0 for no bound


class PreparedModel(msgspec.Struct, kw_only=True):
    """A model that can be launched."""

    name: str
    version: str
    description: str
    source: str  #: the path or URL that the operator named, without secrets
    directory: str
    python: str  #: the interpreter of its environment
    environment: str = ""  #: the directory of its own environment, or ""
    manifest: bytes  #: ``MANIFEST.json``, with the name it is served under
    stages: list[PreparedStage]
    may_retry: bool
    size_bytes: int  #: size of all files
    calls: list[str] = []  #: models that its services may call
    assets: dict[str, str] = {}  #: name to path; all of them exist
    digest: str  #: changes when a file does
    user: str = ""  #: the user that its workers run as; "" is our own
    scratch: str = ""  #: a directory to remove when the model is no longer served, or ""
    settings: list[SettingRow] = []  #: each value, and where it is from
    pass_env: list[str] = []  #: patterns of the operator's variables that its workers get
    on_demand: bool = False  #: loaded when the first request comes
    idle_s: float = 0.0  #: time without a request after which it is unloaded; 0: never

    @property
    def may_sleep(self) -> bool:
        """Whether it is unloaded while nobody needs it."""
        return self.on_demand or self.idle_s > 0

    @property
    def label(self) -> str:
        """Name and version."""
        return f"{self.name}/{self.version}"

    def stage(self, name: str) -> PreparedStage:
        """Return the stage *name*; "" is that of a model without stages."""
        return next(stage for stage in self.stages if stage.name == name)

    def is_same(self, other: "PreparedModel") -> bool:
        """Whether its workers would do the same: same content, same settings."""
        return self.digest == other.digest and _values(self) == _values(other)


def _values(model: PreparedModel) -> dict[str, Any]:
    """Return the settings that matter to workers."""
    return {row.name: row.value for row in model.settings if row.name not in ORIGIN}


class PrepareOutcome(msgspec.Struct, kw_only=True):
    """From the child: steps while it works, and at the end a model or an error."""

    step: str = ""
    model: PreparedModel | None = None
    error: str = ""  #: one line for each problem
    is_refused: bool = False  #: the error is a refusal of the policy, or of a plugin


class WatchFiles(msgspec.Struct, array_like=True):
    """To the child, once: what to watch."""

    paths: list[str]


class WatchBegan(msgspec.Struct, array_like=True, tag=1):
    """From the child: every change from now on is noticed."""


class FileChanged(msgspec.Struct, array_like=True, tag=2):
    """From the child: the content of a path has changed."""

    place: int  #: index into ``WatchFiles.paths``
