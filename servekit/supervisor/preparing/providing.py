# SPDX-License-Identifier: Apache-2.0
"""Provides what a model needs beside its files: requirements, assets. Runs in: prepare child."""

import os
from contextlib import suppress
from functools import partial
from pathlib import Path

import servekit_archiver
from servekit_archiver import Manifest

from servekit.supervisor.preparing.messages import PreparedModel, PrepareRequest
from servekit.supervisor.preparing.opening import Tell
from servekit.supervisor.preparing.storing import StoreAssets

__all__ = ["provide"]


def provide(
    model: PreparedModel,
    manifest: Manifest,
    request: PrepareRequest,
    cache: Path | None,
    tell: Tell,
) -> None:
    """Find, build or fetch the environment and the assets of *model*.

    :raises StartupError: a requirement or an asset is missing, or cannot be had.
    """
    directory = Path(model.directory)
    if manifest.requirements and request.install_requirements:
        _use_environment(model, manifest, cache, tell)
    elif manifest.requirements:
        from servekit.supervisor.preparing import requirements

        requirements.check(directory / manifest.requirements)
    model.assets = _assets(request, cache, StoreAssets(manifest, directory, model.python), tell)


def _use_environment(
    model: PreparedModel, manifest: Manifest, cache: Path | None, tell: Tell
) -> None:
    """Prepare an environment with the packages of *model* for its workers."""
    from servekit.environments.building import environment_for
    from servekit.environments.store import python_of
    from servekit.environments.wanted import WantedPackages

    wanted = WantedPackages.of(manifest, Path(model.directory))
    assert wanted is not None, "the manifest names requirements"
    environment = environment_for(wanted, cache or servekit_archiver.default_cache_dir(), tell)
    model.environment, model.python = str(environment), python_of(environment)


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
    for path in paths.values():
        with suppress(OSError):  # another user's
            os.utime(path.parent)  # the time of its last use
    return {name: str(path) for name, path in paths.items()}
