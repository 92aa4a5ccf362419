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
    if model.missing:
        await _load_missing(host, model)


async def _load_missing(host: ModelHost, model: Model) -> None:
    """Load the versions that an earlier server had besides the default, once that is loaded."""
    await model.versions.until(lambda: model.has_settled)
    for each in list(model.missing) if model.versions.default else []:
        try:
            version = await model.prepare(each.source, each.scaled)
            await model.try_out(version)
        except LoadFailed as error:
            reason = f"version {each.version}: {error}"
            host.reporter.notice(notices.model_failed(model.name, reason))
        else:
            model.missing.remove(each)
            model.versions.publish(version, as_default=False)


async def _prepare_first(host: ModelHost, model: Model) -> ModelVersion:
    """Return the first version: by the configuration, if what was swapped in later is gone.

    :raises LoadFailed: it cannot be prepared.
    """
    try:
        return await model.prepare(model.source, model.scaled)
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
        old.prepared.settings = prepared.settings  # a source may have changed
        new.files.release()
        reporter.tally.reloaded("unchanged")
        reporter.notice(notices.model_unchanged(model.label))
        return
    if prepared.name != old.prepared.name:
        new.files.release()
        raise LoadFailed(f"its name is {prepared.name} now; restart the server, or use NAME=PATH")
    try:
        await model.try_out(new)
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
