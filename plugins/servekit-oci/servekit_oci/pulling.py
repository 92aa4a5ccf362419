# SPDX-License-Identifier: Apache-2.0
"""Pulls the one archive of an artifact; everything is checked by size and digest."""

import hashlib
import re
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path

import msgspec

from servekit.errors import StartupError
from servekit_oci.reference import Reference, parse_reference
from servekit_oci.repository import OciRepository

__all__ = ["pull"]

ARCHIVE = "application/vnd.servekit.archive"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CHUNK_BYTES = 1 << 20
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


class Layer(msgspec.Struct):
    """A descriptor of the manifest."""

    digest: str
    size: int
    media_type: str = msgspec.field(name="mediaType", default="")


class ImageManifest(msgspec.Struct):
    """The part of a manifest that is used; an index has no layers."""

    layers: list[Layer] = []


def pull(url: str, scratch: Path, progress: Callable[[int, int], None]) -> Path:
    """Return the archive that *url* names, downloaded into *scratch*.

    :raises StartupError: the URL is malformed, the registry refuses us, the artifact has no
        archive, or a digest is wrong.
    :raises OSError: the registry does not answer, or not by HTTP.
    """
    reference = parse_reference(url)
    try:
        return _pull(reference, scratch, progress)
    except HTTPException as error:
        raise OSError(f"{reference.registry} sends a malformed response: {error!r}") from error


def _pull(reference: Reference, scratch: Path, progress: Callable[[int, int], None]) -> Path:
    repository = OciRepository(reference)
    layer = find_layer(reference, repository)
    path, hasher, done = scratch / "archive.mar", hashlib.sha256(), 0
    with repository.open(f"blobs/{layer.digest}") as response, path.open("wb") as file:
        while chunk := response.read(CHUNK_BYTES):
            hasher.update(chunk)
            done += file.write(chunk)
            if done > layer.size:
                break
            progress(done, layer.size)
    if done != layer.size:
        raise StartupError(f"its size is not {layer.size} bytes, as its manifest says")
    require(layer.digest, hasher.hexdigest(), "the archive")
    return path


def find_layer(reference: Reference, repository: OciRepository) -> Layer:
    """Return the layer of the artifact that is the archive.

    :raises StartupError: it has no archive, or the manifest is not the one that was named.
    """
    content = repository.read(f"manifests/{reference.digest or reference.tag}", MANIFEST)
    if reference.digest:
        require(reference.digest, hashlib.sha256(content).hexdigest(), "the manifest")
    try:
        layers = msgspec.json.decode(content, type=ImageManifest).layers
    except msgspec.DecodeError as error:
        raise StartupError(f"its manifest is malformed: {error}") from error
    found = [layer for layer in layers if layer.media_type == ARCHIVE] or layers
    if len(found) != 1:
        raise StartupError(
            f"has {len(found)} layers that may be the archive; mark one as {ARCHIVE}"
        )
    if not DIGEST.fullmatch(found[0].digest):
        raise StartupError(f"the digest of its archive is not SHA-256: {found[0].digest}")
    return found[0]


def require(wanted: str, found: str, what: str) -> None:
    """Check that the digest of *what* is *wanted*.

    :raises StartupError: it is another one.
    """
    if wanted != f"sha256:{found}":
        raise StartupError(f"the digest of {what} is sha256:{found}, not {wanted}")
