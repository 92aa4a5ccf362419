# SPDX-License-Identifier: Apache-2.0
"""Brings the models of a running server in line with a configuration that has changed."""

from collections.abc import Sequence

from servekit.settings import Settings
from servekit.settings.models import ModelSource
from servekit.supervisor.models.model import Model
from servekit.supervisor.models.registry import ModelRegistry
from servekit.supervisor.models.version_source import VersionSource
from servekit.supervisor.os.coroutines import run_coroutine

__all__ = ["reconfigure"]


def reconfigure(
    registry: ModelRegistry, settings: Settings, sources: Sequence[ModelSource]
) -> None:
    """Load every model again by *settings*: new ones begin, and those not named any more leave.

    A model whose path has changed is loaded from the new one. A model that was loaded at run time
    stays, and belongs to the configuration from when that names it.
    """
    keys = {source.text: source.key for source in registry.sources}
    wanted = {source.key: source for source in sources}
    registry.settings, registry.sources = settings, sources
    for model in [model for model in registry if model.configured]:
        source = wanted.pop(keys.get(model.configured, ""), None)
        if source is None:
            model.configured = ""
            run_coroutine(registry.loop, _dismiss(registry, model))
        elif source.text != model.configured:
            _adopt(registry, model, source)
    texts = {source.text for source in sources}
    registry.unloaded = [gone for gone in registry.unloaded if gone.configured in texts]
    known = {gone.configured for gone in registry.unloaded} | registry.coming
    for source in wanted.values():
        if source.text not in known:
            _take_in(registry, source)
    registry.load_all()


def _take_in(registry: ModelRegistry, source: ModelSource) -> None:
    """Serve *source*, which the configuration has not named before."""
    for model in registry:
        if not model.configured and _is_meant(model, source):
            _adopt(registry, model, source)
            return
    model = registry.newcomer(VersionSource(source.path, source.name))
    model.configured = source.text
    registry.add(model)


def _is_meant(model: Model, source: ModelSource) -> bool:
    """Whether *source* means *model*, which was loaded at run time."""
    unnamed = ("", source.path)
    is_same = (model.source.name, model.source.path) == unnamed == (source.name, source.path)
    return is_same or model.name == source.provisional_name


def _adopt(registry: ModelRegistry, model: Model, source: ModelSource) -> None:
    """Let *source* be what the configuration says of *model*."""
    model.configured = source.text
    run_coroutine(registry.loop, _point(registry, model, source))


async def _point(registry: ModelRegistry, model: Model, source: ModelSource) -> None:
    """Load *model* from *source*, as soon as nothing else is done to it."""
    was_busy = bool(model.work.doing)
    await model.work.until_idle()
    if model.configured != source.text:
        return  # it has been changed again
    model.source = VersionSource(source.path, source.name)
    if was_busy:
        registry.load(model)


async def _dismiss(registry: ModelRegistry, model: Model) -> None:
    """Remove *model* as soon as nothing is done to it, unless it is named again by then."""
    await model.work.until_idle()
    if model in registry and not model.configured:
        registry.remove(model)
