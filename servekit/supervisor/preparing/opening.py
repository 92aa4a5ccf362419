# SPDX-License-Identifier: Apache-2.0
"""From the path or URL of a model to its files and manifest. Runs in: the prepare child."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

import servekit_archiver
from servekit_archiver import EnclosedArchive, Manifest

from servekit.settings.models import ModelSource
from servekit.settings.values import is_url, split_class
from servekit.supervisor.preparing.archive_plugins import open_url
from servekit.supervisor.preparing.decrypting import decrypt
from servekit.supervisor.preparing.expected_digest import require_digest
from servekit.supervisor.preparing.messages import PrepareRequest
from servekit.supervisor.preparing.one_file import open_class
from servekit.supervisor.preparing.stamping import resolved, stamp

__all__ = ["OpenedModel", "Tell", "open_model"]

Tell = Callable[[str], None]
STEP_S = 0.2  #: progress is not told more often


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedModel:
    """The files and the manifest, before the operator's settings are applied."""

    path: Path  #: the archive, or the model directory
    directory: Path  #: the files
    manifest: Manifest
    digest: str
    measured: Path  #: whose size is that of the model
    is_decrypted: bool = False


def open_model(request: PrepareRequest, cache: Path | None, tell: Tell) -> OpenedModel:
    """Return the model at the path or URL of *request*.

    :raises ArchiveError: the archive or directory is refused.
    :raises StartupError: a plugin cannot provide it, or its digest is another one.
    """
    file, service = split_class(request.path)
    path = Path(file)
    if is_url(request.path):
        progress = _progress("fetching", tell)
        path = open_url(request.path, Path(request.scratch), progress, request.required_plugins)
    held = None if service or not path.is_dir() else _open_directory(path, request.name)
    if isinstance(held, EnclosedArchive):
        path = held.path
    require_digest(path, request.name, request.deployments)
    if service:
        directory, manifest, digest = open_class(path, service, request.name)
        return OpenedModel(
            path=directory, directory=directory, manifest=manifest, digest=digest, measured=path
        )
    if isinstance(held, OpenedModel):
        return held
    decrypted = decrypt(path, ModelSource(request.path).shown, request)
    if decrypted:
        path, cache = decrypted, decrypted.parent
    unpacked = servekit_archiver.unpack(path, cache, _progress("unpacking", tell))
    return OpenedModel(
        path=path,
        directory=unpacked.directory,
        manifest=held.amend(unpacked.manifest) if held else unpacked.manifest,
        digest=unpacked.digest,
        measured=unpacked.directory,
        is_decrypted=decrypted is not None,
    )


def _open_directory(path: Path, name: str) -> OpenedModel | EnclosedArchive:
    """Return the model in a directory, or the archive that the directory holds instead.

    :param name: of the model, if the operator has named it; the directory may have a name that no
        model can have, such as ``/mnt/models``.
    """
    directory = resolved(path)  # the path may be a link that leads elsewhere next time
    found = servekit_archiver.open_directory(directory, name=name)  # imported when it is wanted
    if isinstance(found, EnclosedArchive):
        return found
    return OpenedModel(
        path=path,
        directory=directory,
        manifest=found,
        digest=stamp(directory),
        measured=directory,
    )


def _progress(doing: str, tell: Tell) -> Callable[[int, int], None]:
    """Return what turns bytes done and bytes in all, 0 if unknown, into a step now and then."""
    next_at = monotonic() + STEP_S

    def report(done: int, total: int) -> None:
        nonlocal next_at
        if monotonic() >= next_at:
            next_at = monotonic() + STEP_S
            tell(f"{doing} {100 * done // total} %" if total else f"{doing} {done >> 20} MiB")

    return report
