# SPDX-License-Identifier: Apache-2.0
"""The server as the operations see it, and what several of them do."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from servekit.counting import counted
from servekit.ipc.counters import Counters
from servekit.ipc.model_counters import VersionCounts, read_version
from servekit.settings.models import ModelSource
from servekit.settings.values import is_url
from servekit.supervisor.models.model import Model
from servekit.supervisor.models.model_version import ModelVersion
from servekit.supervisor.models.registry import ModelRegistry
from servekit.supervisor.models.traffic import WrongTraffic
from servekit.supervisor.models.version_source import LoadFailed, LoadRefused, VersionSource
from servekit.supervisor.operations.progress import OperationFailed, Progress
from servekit.supervisor.os.loop import Loop
from servekit.supervisor.os.resources import available_bytes
from servekit.supervisor.replicas.load_queue import BASE_BYTES

__all__ = [
    "CONFLICT",
    "FORBIDDEN",
    "NOT_FOUND",
    "NO_MEMORY",
    "UNPROCESSABLE",
    "OperatedServer",
    "load_version",
    "prepare_version",
    "source_of",
    "version_of",
]

FORBIDDEN, NOT_FOUND, CONFLICT, UNPROCESSABLE, NO_MEMORY = 403, 404, 409, 422, 507


@dataclass(frozen=True, slots=True)
class OperatedServer:
    """The models, the loop and the measurements that operations need."""

    registry: ModelRegistry
    loop: Loop
    #: returns the counts of all front-ends for a model and version
    read_counts: Callable[[str, str], VersionCounts]
    available_bytes: Callable[[], int | None]

    @classmethod
    def of(cls, registry: ModelRegistry, loop: Loop, counters: Counters) -> "OperatedServer":
        """Return the server of *registry*, whose front-ends count in *counters*."""
        return cls(registry, loop, partial(read_version, counters), available_bytes)

    def model(self, name: str) -> Model:
        """Return the model that is served under *name*.

        :raises OperationFailed: there is none.
        """
        model = self.registry.find(name)
        if model is None:
            served = ", ".join(each.name for each in self.registry) or "none"
            raise OperationFailed(NOT_FOUND, f"there is no model {name!r}; served: {served}")
        return model

    def idle_model(self, name: str) -> Model:
        """Return the model *name*, to which nothing else is being done.

        :raises OperationFailed: there is none, or something is.
        """
        model = self.model(name)
        if model.work.doing:
            raise OperationFailed(CONFLICT, f"{name} is busy: {model.work.doing}; try again later")
        return model

    def require_memory(self, version: ModelVersion, replicas: int, size_bytes: int) -> None:
        """Check that there is memory for *replicas* more of *version*, as far as that is known.

        :param size_bytes: of weights that are not in memory yet; replicas that map them share them.
        :raises OperationFailed: there is not.
        """
        available, needed = self.available_bytes(), replicas * BASE_BYTES + size_bytes
        label = version.prepared.label
        if replicas > 0 and (problem := self.registry.memory.problem(needed)):
            raise OperationFailed(NO_MEMORY, f"{label} {problem}")
        if available is not None and needed > available:
            free = f"{available >> 20} MiB are free"
            reason = f"{label} needs about {needed >> 20} MiB of memory, and {free}"
            raise OperationFailed(NO_MEMORY, reason)


def version_of(model: Model, name: str) -> ModelVersion:
    """Return the loaded version that *name*, a version or an alias, means; "" is the default.

    :raises OperationFailed: there is none.
    """
    try:
        version = model.versions.find(model.traffic.resolve(name)) if name else None
    except WrongTraffic as error:
        raise OperationFailed(NOT_FOUND, f"{model.name}: {error}") from error
    version = version or model.versions.default
    if version is None:
        raise OperationFailed(CONFLICT, f"{model.name} is not loaded")
    return version


def source_of(path: str, name: str, settings: dict[str, object]) -> VersionSource:
    """Return the source that an operator names.

    :raises OperationFailed: it is neither a URL nor an absolute path at which there is something,
        or a setting is refused.
    """
    file = Path(ModelSource(path).file)
    if not is_url(path) and not file.is_absolute():
        raise OperationFailed(UNPROCESSABLE, f"source: {path!r} is not a URL or an absolute path")
    try:
        if not is_url(path) and not file.exists():
            raise OperationFailed(UNPROCESSABLE, f"source: {path}: no such file or directory")
    except OSError as error:  # we may not enter its directory, or the name is too long
        reason = f"source: {path}: {error.strerror}"
        raise OperationFailed(UNPROCESSABLE, reason) from error
    source = VersionSource(path, name, {**settings, "path": path})
    try:
        source.deployment  # noqa: B018 - reading it checks the settings
    except ValueError as error:
        raise OperationFailed(UNPROCESSABLE, str(error)) from error
    return source


async def prepare_version(model: Model, source: VersionSource, progress: Progress) -> ModelVersion:
    """Return a version of *source* without replicas.

    :raises OperationFailed: it cannot be prepared.
    """
    with progress.step("prepare", source.shown):
        scaled = {} if source.sets_replicas else model.scaled
        try:
            version = await model.prepare(source, scaled)
        except LoadFailed as error:
            status = FORBIDDEN if isinstance(error, LoadRefused) else UNPROCESSABLE
            raise OperationFailed(status, "; ".join(str(error).splitlines())) from error
    progress.row.version = version.version
    return version


async def load_version(
    server: OperatedServer,
    model: Model,
    version: ModelVersion,
    progress: Progress,
    replaces: ModelVersion | None = None,
) -> None:
    """Load *version*, whose workers run their examples; it serves no request yet.

    :param replaces: the version that leaves afterwards, as one with the same name does.
    :raises OperationFailed: there is no memory for it, or a worker died.
    """
    with progress.step("load", f"{version.version}: {counted(version.size, 'replica')}"):
        try:
            server.require_memory(version, version.size, version.prepared.size_bytes)
            await model.try_out(version, replaces)
        except LoadFailed as error:
            raise OperationFailed(UNPROCESSABLE, str(error)) from error
        except OperationFailed:
            version.files.release()
            raise
