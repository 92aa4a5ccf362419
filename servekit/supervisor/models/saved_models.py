# SPDX-License-Identifier: Apache-2.0
"""Models that were changed at run time, as a server remembers them for its next start."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from msgspec import Struct, field

from servekit.ipc.table import TrafficRow
from servekit.settings.deployments import Replicas
from servekit.settings.models import ModelSource
from servekit.supervisor.models.version_source import VersionSource

__all__ = ["ModelStart", "SavedModel", "SavedVersion", "lay_over", "names_loaded", "unloaded"]


class SavedVersion(Struct):
    """How to load a version again."""

    source: VersionSource
    version: str
    scaled: dict[str, Replicas] = {}  #: numbers of replicas that were set at run time, by stage


class SavedModel(Struct, kw_only=True):
    """A model that was loaded, unloaded or changed at run time."""

    configured: str  #: ``NAME=PATH`` of the configuration; "": it was loaded at run time
    name: str
    default: SavedVersion | None  #: ``None``: the model was unloaded
    others: list[SavedVersion] = []
    previous: SavedVersion | None = None  #: the default version before
    scaled: dict[str, Replicas] = {}  #: numbers of replicas of later versions, by stage
    traffic: TrafficRow = field(default_factory=TrafficRow)


@dataclass(frozen=True, slots=True)
class ModelStart:
    """A model that a server begins with."""

    source: VersionSource
    configured: str = ""
    saved: SavedModel | None = None


def lay_over(sources: Iterable[ModelSource], saved: Sequence[SavedModel]) -> list[ModelStart]:
    """Return the models of a server whose configuration names *sources*.

    What was changed at run time counts as long as the configuration says the same of the model
    as it did then; what it says now counts if that is something else.
    """
    known = {each.configured: each for each in saved if each.configured}
    starts = [_start(source, known.get(source.text)) for source in sources]
    names = {start.source.name for start in starts if start is not None}
    added = [
        ModelStart(each.default.source, saved=each)
        for each in saved
        if not each.configured and each.default is not None and each.name not in names
    ]
    return [*filter(None, starts), *added]


def names_loaded(saved: Iterable[SavedModel]) -> list[str]:
    """Return the names of those of *saved* that the configuration did not name."""
    return [each.name for each in saved if each.default and not each.configured]


def unloaded(sources: Iterable[ModelSource], saved: Iterable[SavedModel]) -> list[SavedModel]:
    """Return the models of *sources* that an operator has unloaded."""
    configured = {source.text for source in sources}
    return [each for each in saved if each.default is None and each.configured in configured]


def _start(source: ModelSource, saved: SavedModel | None) -> ModelStart | None:
    """Return how a model of the configuration begins; ``None`` if it was unloaded."""
    if saved is None:
        return ModelStart(VersionSource(source.path, source.name), source.text)
    return ModelStart(saved.default.source, source.text, saved) if saved.default else None
