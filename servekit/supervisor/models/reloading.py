# SPDX-License-Identifier: Apache-2.0
"""The first load of a model, and each later look whether its source has changed."""

from servekit.supervisor.models.host import ModelHost
from servekit.supervisor.models.model import Model
from servekit.supervisor.models.model_version import ModelVersion
from servekit.supervisor.models.version_source import LoadFailed, VersionSource
from servekit.supervisor.reporting import notices

__all__ = ["load"]


async def load(host: ModelHost, model: Model) -> None:
    """Load what has changed of *model*; a version that cannot be loaded changes nothing."""
    model.refusal = ""
    old = model.versions.default
    try:
        if old is None:
            _launch_first(host, model, await _prepare_first(host, model))
        else:
            await _follow(host, model, old, await model.prepare(model.source, old.scaled))
    except LoadFailed as error:
        _refuse(host, model, str(error))
    host.changed()
    if model.versions.missing:
        await _load_missing(host, model)


async def _load_missing(host: ModelHost, model: Model) -> None:
    """Load the versions that an earlier server had besides the default, once that is loaded."""
    versions = model.versions
    await versions.until(lambda: model.has_settled)
    for each in list(versions.missing) if versions.default else []:
        try:
            version = await model.prepare(each.source, each.scaled)
            _require_new(model, version)
            await _admit(host, model, version)
        except LoadFailed as error:
            reason = f"version {each.version}: {error}"
            host.reporter.notice(notices.model_failed(model.name, reason))
        else:
            versions.forget_missing(each.version)
            versions.publish(version, as_default=False)


def _require_new(model: Model, version: ModelVersion) -> None:
    """Check that *model* does not serve a version of this name.

    :raises LoadFailed: it does.
    """
    if model.versions.find(version.version):
        version.files.release()
        source = version.source.shown
        raise LoadFailed(f"{source} holds version {version.version} now, which is served already")


async def _admit(
    host: ModelHost, model: Model, version: ModelVersion, replaces: ModelVersion | None = None
) -> None:
    """Load *version*, or let it sleep until a request asks for it, as its settings say.

    :param replaces: the version that leaves afterwards; *version* is awake if that one is.
    :raises LoadFailed: it cannot be loaded, or another model has one of its paths.
    """
    prepared = version.prepared
    may_sleep = prepared.may_sleep and (replaces is None or replaces.is_asleep)
    if not may_sleep or not (prepared.on_demand or host.memory.lacks(version)):
        await model.try_out(version, replaces)
        return
    if problem := host.claims.path_problem(model, version.row):
        version.files.release()
        raise LoadFailed(problem)
    version.is_asleep = True


async def _prepare_first(host: ModelHost, model: Model) -> ModelVersion:
    """Return the first version: by the configuration, if what was swapped in later is gone.

    :raises LoadFailed: it cannot be prepared.
    """
    try:
        return await model.prepare(model.source, model.first_scaled)
    except LoadFailed as error:
        found = [source for source in host.sources if source.text == model.configured]
        if not found or model.source.path == found[0].path:
            raise
        reason = f"{model.source.shown}: {error}; the configuration names {found[0].shown}"
        host.reporter.notice(notices.model_failed(model.name, reason))
        model.source = VersionSource(found[0].path, found[0].name)
        return await model.prepare(model.source, model.scaled)


def _launch_first(host: ModelHost, model: Model, version: ModelVersion) -> None:
    if problem := host.claims.name_problem(model, version.prepared.name):
        version.files.release()
        raise LoadFailed(problem)
    model.failure = ""
    host.launching()
    try:
        model.versions.launch_first(version)
    except OSError as error:
        raise LoadFailed(f"cannot be launched: {error.strerror}") from error


async def _follow(host: ModelHost, model: Model, old: ModelVersion, new: ModelVersion) -> None:
    """Let *new* take the place of *old* if its content differs; *old* serves until then."""
    reporter, prepared = host.reporter, new.prepared
    if prepared.is_same(old.prepared):
        old.note_sources(prepared.settings)
        new.files.release()
        reporter.tally.reloaded("unchanged")
        reporter.notice(notices.model_unchanged(model.label))
        return
    if prepared.name != old.prepared.name:
        new.files.release()
        raise LoadFailed(f"its name is {prepared.name} now; restart the server, or use NAME=PATH")
    try:
        await _admit(host, model, new, old)
    except LoadFailed as error:
        reporter.tally.reloaded("failed")
        reporter.notice(notices.reload_failed(prepared.label, str(error), model.label))
        model.refusal = str(error)
        return
    model.make_default(new)
    model.versions.retire(old)
    reporter.tally.reloaded("loaded")
    notice = notices.model_reloaded(old.prepared.label, prepared.label)
    host.loop.defer(lambda: reporter.notice(notice))  # once the table is sent


def _refuse(host: ModelHost, model: Model, reason: str) -> None:
    """Report that *model* cannot be prepared; a version that serves continues."""
    reporter, model.refusal = host.reporter, reason
    if model.versions.default is None:
        model.failure = reason
        reporter.notice(notices.model_failed(model.name, reason))
    else:
        reporter.tally.reloaded("failed")
        reporter.notice(notices.reload_failed(model.name, reason, model.label))
    reporter.model_failed(model.name, reason)
