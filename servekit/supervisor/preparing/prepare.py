# SPDX-License-Identifier: Apache-2.0
"""Makes one archive or model directory loadable. Runs in: the prepare child.

Verifies and unpacks an archive into the cache (a directory is served where it is), reads the
manifest, and provides the model's requirements and assets.
"""

import dataclasses
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec
from servekit_archiver import ArchiveError, Manifest, ManifestError

from servekit.errors import ArchiveRefused, StartupError
from servekit.extension.archives import ArchiveInfo
from servekit.ipc.batches import PREDICT
from servekit.settings.models import ModelSource
from servekit.supervisor.os.memory_directory import admit
from servekit.supervisor.os.user import (
    ENTERED,
    User,
    cache_for,
    find_user,
    open_entry,
    require_readable,
)
from servekit.supervisor.preparing.archive_plugins import require_acceptance
from servekit.supervisor.preparing.deploying import Deployed, deploy
from servekit.supervisor.preparing.expected_digest import refuse_late_digest
from servekit.supervisor.preparing.messages import (
    PreparedModel,
    PreparedStage,
    PrepareOutcome,
    PrepareRequest,
)
from servekit.supervisor.preparing.opening import Tell, open_model
from servekit.supervisor.preparing.providing import provide

__all__ = ["answer", "prepare"]


def answer(request: PrepareRequest, tell: Tell) -> PrepareOutcome:
    """Return the model, or what says why there is none: one line for each problem."""
    outcome = _answer(request, tell)
    for directory in filter(None, (request.scratch, request.memory)):
        if not (outcome.model and outcome.model.scratch == directory):
            shutil.rmtree(directory, ignore_errors=True)
    return outcome


def _answer(request: PrepareRequest, tell: Tell) -> PrepareOutcome:
    try:
        return PrepareOutcome(model=prepare(request, tell))
    except ManifestError as error:
        return PrepareOutcome(error="\n".join(f"{error.source}: {text}" for text in error.problems))
    except (ArchiveError, StartupError) as error:
        return PrepareOutcome(error=str(error), is_refused=isinstance(error, ArchiveRefused))
    except OSError as error:
        return PrepareOutcome(error=f"{error.filename or request.path}: {error.strerror}")


def prepare(request: PrepareRequest, tell: Tell) -> PreparedModel:
    """Return a model that can be launched.

    :raises ArchiveError: the archive or directory is refused.
    :raises StartupError: a plugin refuses it, or its requirements or its assets are not there.
    """
    user = find_user(request.worker_user)
    cache = Path(request.cache_dir) if request.cache_dir else None
    if user:
        cache = cache_for(user, request.cache_dir)
    opened = open_model(request, cache, tell)
    directory, manifest = opened.directory, opened.manifest
    if request.name:
        manifest = dataclasses.replace(manifest, name=request.name)
    else:
        refuse_late_digest(manifest.name, request.deployments)
    deployed = deploy(manifest, request.deployments, request.path, os.environ)
    manifest = deployed.manifest
    model = PreparedModel(
        name=manifest.name,
        version=manifest.version,
        description=manifest.description,
        source=ModelSource(request.path).shown,
        directory=str(directory),
        python=sys.executable,
        manifest=manifest.to_json(),
        stages=_with_bounds(_stages(manifest, deployed.environments), deployed),
        may_retry=manifest.retry,
        calls=list(manifest.calls),
        size_bytes=_size(opened.measured, manifest),
        digest=opened.digest,
        user=request.worker_user,
        scratch=_own_directory(request, directory),
        settings=deployed.settings,
        pass_env=deployed.pass_env,
        on_demand=deployed.on_demand,
        idle_s=deployed.idle_s,
    )
    require_acceptance(_archive_info(model, opened.path), request.policy, request.required_plugins)
    if opened.is_decrypted:
        opened.path.unlink()  # it is unpacked, and takes as much memory again
    provide(model, manifest, request, cache, tell)
    if user:
        _let_read(user, model, cache, request.memory)
    return model


def _own_directory(request: PrepareRequest, directory: Path) -> str:
    """Return the directory to remove with the model: the one that was made for *directory*."""
    own = (request.scratch, request.memory)
    return next((each for each in own if each and Path(each) in directory.parents), "")


def _archive_info(model: PreparedModel, path: Path) -> ArchiveInfo:
    return ArchiveInfo(
        name=model.name,
        version=model.version,
        source=model.source,
        path=path,
        directory=Path(model.directory),
        manifest=msgspec.json.decode(model.manifest),
        digest="" if path.is_dir() else model.digest,
    )


def _let_read(user: User, model: PreparedModel, cache: Path | None, memory: str) -> None:
    """Let *user* read what is in *cache*, and pass if it can then read everything.

    :param memory: the directory for decrypted files.
    """
    directory = Path(model.directory)
    if memory and model.scratch == memory:
        admit(user, Path(model.scratch))
        open_entry(directory)
    elif cache in directory.parents:
        open_entry(directory)
    for path in model.assets.values():
        open_entry(Path(path).parent)
    if model.environment:
        Path(model.environment).parent.chmod(ENTERED)
    require_readable(user, directory, model.python)


def _size(directory: Path, manifest: Manifest) -> int:
    """Return the bytes of its files; a directory's own manifest does not list them."""
    if directory.is_file():  # a class in one file
        return directory.stat().st_size
    if manifest.files:
        return sum(info.size for info in manifest.files.values())
    found = (Path(place) / name for place, _, names in os.walk(directory) for name in names)
    return sum(path.lstat().st_size for path in found)


def _stages(
    manifest: Manifest, environments: Mapping[str, list[dict[str, str]]]
) -> list[PreparedStage]:
    """Return the stages that have workers; a colocated stage is part of its host.

    :param environments: by stage, of the replicas in turn.
    """
    if not manifest.stages:
        own = manifest.every_stage[PREDICT]
        plain = dataclasses.replace(manifest, examples=own.examples)
        return [_stage("", plain, environments[PREDICT])]
    found = {
        name: _stage(name, manifest.of_stage(name), environments[stage.host or name])
        for name, stage in manifest.every_stage.items()
    }
    for name, stage in manifest.stages.items():
        if stage.host is not None:
            host, guest = found[stage.host], found.pop(name)
            guest.environments = host.environments  # servekit check loads it alone
            host.colocated.append(guest)
    return list(found.values())


def _with_bounds(stages: list[PreparedStage], deployed: Deployed) -> list[PreparedStage]:
    for stage in stages:
        name = stage.name or PREDICT
        stage.preload = name in deployed.preloaded
        stage.range, stage.max_memory = deployed.ranges.get(name), deployed.max_memory[name]
        stage.cpus, stage.threads = deployed.cpus[name], deployed.threads[name]
    return stages


def _stage(name: str, manifest: Manifest, environments: list[dict[str, str]]) -> PreparedStage:
    worker, batching = manifest.worker, manifest.batching
    return PreparedStage(
        name=name,
        manifest=manifest.to_json(),
        replicas=worker.replicas,
        ranks=worker.ranks,
        max_batch_size=batching.max_batch_size,
        max_delay_s=batching.max_delay_ms / 1000,
        max_concurrency=batching.max_concurrency,
        max_batch_cost=batching.max_batch_cost or 0.0,
        predict_timeout_s=worker.predict_timeout_s,
        load_timeout_s=worker.load_timeout_s,
        environments=environments,
    )
