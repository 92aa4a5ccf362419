# SPDX-License-Identifier: Apache-2.0
"""The models of a command line, as servers get them."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from servekit.errors import StartupError
from servekit.settings import ModelSource, parse_models
from servekit_ray.shipping import digest_of
from servekit_ray.state import ShippedModel

if TYPE_CHECKING:
    from servekit_archiver import Manifest

__all__ = ["manifest_of", "shipped_model", "shipped_models"]


def shipped_models(models: Sequence[str]) -> dict[str, ShippedModel]:
    """Return the models by name.

    :raises StartupError: one has no name, or is a directory.
    """
    found: dict[str, ShippedModel] = {}
    for source in parse_models(models):
        model = shipped_model(source)
        name = source.name or name_in(source)
        if name in found:
            raise StartupError(f"{source.shown}: another model is called {name}")
        found[name] = model
    return found


def shipped_model(source: ModelSource) -> ShippedModel:
    """Return what identifies the content of a model.

    :raises StartupError: it is a directory.
    """
    if source.is_url:
        return ShippedModel(url=source.path)
    path = Path(source.path)
    if not path.is_file():
        raise StartupError(f"{path}: is not an archive; servekit build makes one of a directory")
    return ShippedModel(file=path.name, digest=digest_of(path))


def name_in(source: ModelSource) -> str:
    """Return the name in the manifest of an archive.

    :raises StartupError: it is not an archive of servekit.
    """
    manifest = manifest_of(source)
    if manifest is None:
        raise StartupError(
            f"{source.shown}: only archives of servekit contain a name; write NAME={source.shown}"
        )
    return str(manifest.name)


def manifest_of(source: ModelSource) -> "Manifest | None":
    """Return the manifest of an archive, or ``None`` of a URL or anything else."""
    from servekit_archiver import ArchiveError, open_archive

    if source.is_url:
        return None
    try:
        with open_archive(Path(source.path)) as archive:
            return archive.manifest
    except (ArchiveError, OSError):
        return None
