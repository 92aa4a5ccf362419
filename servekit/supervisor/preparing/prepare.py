# SPDX-License-Identifier: Apache-2.0
"""Makes one archive or model directory loadable. Runs in: the prepare child.

Verifies and unpacks an archive into the cache (a directory is served where it is), reads the
manifest, and provides the model's requirements and assets.
"""

import dataclasses
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import monotonic

import servekit_archiver
from servekit_archiver import ArchiveError, Manifest, ManifestError

from servekit.errors import StartupError
from servekit.ipc.batches import PREDICT
from servekit.supervisor.os.user import cache_for, find_user, open_entry, require_readable
from servekit.supervisor.preparing.messages import (
    PreparedModel,
    PreparedStage,
    PrepareOutcome,
    PrepareRequest,
)
from servekit.supervisor.preparing.stamping import stamp
from servekit.supervisor.preparing.storing import StoreAssets

__all__ = ["answer", "prepare"]

Tell = Callable[[str], None]
STEP_S = 0.2  #: progress is not told more often


def answer(request: PrepareRequest, tell: Tell) -> PrepareOutcome:
    """Return the model, or what says why there is none: one line for each problem."""
    try:
        return PrepareOutcome(model=prepare(request, tell))
    except ManifestError as error:
        return PrepareOutcome(error="\n".join(f"{error.source}: {text}" for text in error.problems))
    except (ArchiveError, StartupError) as error:
        return PrepareOutcome(error=str(error))
    except OSError as error:
        return PrepareOutcome(error=f"{error.filename or request.path}: {error.strerror}")


def prepare(request: PrepareRequest, tell: Tell) -> PreparedModel:
    """Return a model that can be launched.

    :raises ArchiveError: the archive or directory is refused.
    :raises StartupError: its requirements or its assets are not there.
    """
    user = find_user(request.worker_user)
    cache = Path(request.cache_dir) if request.cache_dir else None
    if user:
        cache = cache_for(user, request.cache_dir)
    directory, manifest, digest = _open(Path(request.path), cache, tell)
    if request.name:
        manifest = dataclasses.replace(manifest, name=request.name)
    python = sys.executable
    if manifest.requirements:
        from servekit.supervisor.preparing import requirements

        wanted = directory / manifest.requirements
        if request.install_requirements:
            python = requirements.environment_for(wanted, cache, tell)
        else:
            requirements.check(wanted)
    assets = _assets(request, cache, StoreAssets(manifest, directory, python), tell)
    if user:
        if cache in directory.parents:
            open_entry(directory)
        for path in assets.values():
            open_entry(Path(path).parent)
        require_readable(user, directory, python)
    return _prepared(request, directory, manifest, digest, python, assets)


def _open(path: Path, cache: Path | None, tell: Tell) -> tuple[Path, Manifest, str]:
    """Return the files, the manifest, and what tells this content from another."""
    if path.is_dir():
        directory = path.resolve()  # the path may be a link that leads elsewhere next time
        manifest = servekit_archiver.load_directory(directory)  # imported when it is wanted
        return directory, manifest, stamp(directory)
    unpacked = servekit_archiver.unpack(path, cache, _progress(tell))
    return Path(unpacked.directory), unpacked.manifest, unpacked.digest


def _progress(tell: Tell) -> Callable[[int, int], None]:
    """Return what turns bytes done and bytes in all into a step now and then."""
    next_at = monotonic() + STEP_S

    def report(done: int, total: int) -> None:
        nonlocal next_at
        if monotonic() >= next_at:
            next_at = monotonic() + STEP_S
            tell(f"unpacking {100 * done // max(1, total)} %")

    return report


def _assets(
    request: PrepareRequest, cache: Path | None, store: StoreAssets, tell: Tell
) -> dict[str, str]:
    manifest = store.manifest
    if not manifest.assets:
        return {}
    from servekit.assets.making import Maker
    from servekit.assets.requiring import fetch_missing, hint_of, require_assets, teller

    place = cache or servekit_archiver.default_cache_dir()
    if request.fetch_assets:
        told = teller("making assets", tell)
        run = partial(store.run, progress=lambda size: told(size, 0))
        # where workers are not root, no code of the model is run as root either
        maker = None if request.worker_user else Maker(store.directory, run)
        fetch_missing(manifest, place, tell, maker)
    paths = require_assets(manifest, place, hint_of(request.path, str(cache or "")))
    return {name: str(path) for name, path in paths.items()}


def _prepared(
    request: PrepareRequest,
    directory: Path,
    manifest: Manifest,
    digest: str,
    python: str,
    assets: dict[str, str],
) -> PreparedModel:
    return PreparedModel(
        name=manifest.name,
        version=manifest.version,
        description=manifest.description,
        source=request.path,
        directory=str(directory),
        python=python,
        manifest=manifest.to_json(),
        stages=_stages(manifest),
        may_retry=manifest.retry,
        size_bytes=_size(directory, manifest),
        assets=assets,
        digest=digest,
        user=request.worker_user,
    )


def _stages(manifest: Manifest) -> list[PreparedStage]:
    if not manifest.stages:
        own = manifest.every_stage[PREDICT]
        return [_stage("", dataclasses.replace(manifest, examples=own.examples))]
    found = {name: _stage(name, manifest.of_stage(name)) for name in manifest.every_stage}
    for name, stage in manifest.stages.items():
        if stage.beside is not None:
            found[stage.beside].beside.append(found.pop(name))
    return list(found.values())


def _stage(name: str, manifest: Manifest) -> PreparedStage:
    worker, batching = manifest.worker, manifest.batching
    tables = worker.env if isinstance(worker.env, tuple) else (worker.env,)
    return PreparedStage(
        name=name,
        manifest=manifest.to_json(),
        replicas=worker.replicas,
        max_batch_size=batching.max_batch_size,
        max_delay_s=batching.max_delay_ms / 1000,
        predict_timeout_s=worker.predict_timeout_s,
        load_timeout_s=worker.load_timeout_s,
        environments=[dict(table) for table in tables],
    )


def _size(directory: Path, manifest: Manifest) -> int:
    """Return the bytes of its files; a directory's own manifest does not list them."""
    if manifest.files:
        return sum(info.size for info in manifest.files.values())
    found = (Path(place) / name for place, _, names in os.walk(directory) for name in names)
    return sum(path.lstat().st_size for path in found)
