# SPDX-License-Identifier: Apache-2.0
"""Reads what an archive of MMS says of its model: the manifest, and the signature of 0.x."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Any, Final, Literal, TypeVar
from zipfile import BadZipFile, ZipFile

import msgspec
from msgspec import Struct, field
from servekit_archiver import file_in

from servekit.errors import BootError
from servekit.extension import read_json

if TYPE_CHECKING:
    from collections.abc import Callable, Set
    from pathlib import Path

__all__ = [
    "JPEG",
    "JSON",
    "LEGACY",
    "PRESENT",
    "HandlerArchive",
    "LegacyArchive",
    "LegacySignature",
    "SignedTensor",
    "is_handler_manifest",
    "is_legacy_manifest",
    "read_archive",
    "read_signature",
]

JSON: Final = "application/json"
JPEG: Final = "image/jpeg"
LEGACY: Final = "MANIFEST.json"  #: at the root: an archive of 0.x
PRESENT: Final = "MAR-INF/MANIFEST.json"  #: an archive of 1.x, or of another server
#: where it is in a directory: in that of 1.x, and in an archive that ``servekit migrate`` has made
PLACES: Final = (PRESENT, "FOREIGN-INF/MANIFEST.json")
MAX_BYTES: Final = 1 << 20  #: the longest manifest or signature

#: keys that the archiver of MMS 1.x writes, and that of TorchServe does not
OF_MMS: Final = frozenset(("specificationVersion", "implementationVersion", "modelServerVersion"))
OF_TORCHSERVE: Final = frozenset(("archiverVersion", "createdOn"))

MediaType = Literal["image/jpeg", "application/json"]
Document = TypeVar("Document")


class SignedTensor(Struct):
    """One input or output of a signature."""

    data_name: str
    #: the first dimension is the batch, written as 0; 0 elsewhere is any size
    data_shape: list[int]

    @property
    def shape(self) -> list[int]:
        """The dimensions without the batch."""
        return self.data_shape[1:]


class LegacySignature(Struct):
    """``signature.json``."""

    inputs: list[SignedTensor]
    input_type: MediaType
    outputs: list[SignedTensor]
    output_type: MediaType


class LegacyModel(Struct):
    """The object ``Model`` of a manifest of 0.x."""

    signature: str = field(name="Signature")
    service: str = field(name="Service")
    name: str = field(name="Model-Name")
    description: str = field(name="Description", default="")
    symbol: str = field(name="Symbol", default="")
    parameters: str = field(name="Parameters", default="")


class LegacyManifest(Struct):
    """``MANIFEST.json`` of an archive of 0.x; 0.1.5 writes numbers for versions, 0.4 strings."""

    archive_version: float | str = field(name="Model-Archive-Version")
    model: LegacyModel = field(name="Model")


class HandlerModel(Struct, rename="camel"):
    """The object ``model`` of a manifest of 1.x."""

    model_name: str
    handler: str  #: ``module:function``
    model_version: str = ""
    description: str = ""


class HandlerManifest(Struct):
    """``MAR-INF/MANIFEST.json`` of an archive of 1.x."""

    model: HandlerModel
    runtime: str = "python"


class LegacyArchive(Struct):
    """The content of a ``.model`` archive of 0.x."""

    directory: Any  #: a ``Path``
    model: LegacyModel
    signature: LegacySignature
    manifest: dict[str, Any]  #: as it is written, for service classes

    @property
    def weights(self) -> list[str]:
        """The files of a network of MXNet, if it has them."""
        return [name for name in (self.model.symbol, self.model.parameters) if name]


class HandlerArchive(Struct):
    """The content of a ``.mar`` archive of 1.x."""

    directory: Any  #: a ``Path``
    model: HandlerModel
    manifest: dict[str, Any]

    @property
    def entry_point(self) -> tuple[str, str]:
        """The module and the function, or class method, that the manifest names."""
        module, _, function = self.model.handler.partition(":")
        return module.removesuffix(".py"), function or "handle"


def read_archive(directory: Path) -> LegacyArchive | HandlerArchive | None:
    """Return what the files in *directory* say; ``None`` if they are not those of MMS.

    :raises BootError: they are, and one of them cannot be used.
    """
    if (directory / LEGACY).is_file() and is_legacy_manifest(content := _read(directory / LEGACY)):
        return _read_legacy(directory, content)
    for path in (directory / place for place in PLACES):
        if path.is_file() and is_handler_manifest(content := _read(path)):
            return _read_handler(directory, content)
    return None


def is_legacy_manifest(content: bytes) -> bool:
    """Whether *content* is the manifest of an archive of 0.x, perhaps with mistakes."""
    return _keys(content) >= {"Model-Archive-Version", "Model"}


def is_handler_manifest(content: bytes) -> bool:
    """Whether *content* is the manifest of an archive of 1.x, perhaps with mistakes."""
    keys = _keys(content)
    return bool(keys & OF_MMS) and not keys & OF_TORCHSERVE


def read_signature(path: Path) -> LegacySignature:
    """Return the signature of the archive of 0.x at *path*, a file or a directory.

    :raises BootError: it is not such an archive.
    """
    try:
        if path.is_dir():
            return _signature_of(lambda name: file_in(path, name, LEGACY).open("rb"))
        with ZipFile(path) as archive:
            return _signature_of(archive.open)
    except (OSError, KeyError, BadZipFile) as error:
        raise BootError(f"{path}: is not an archive of MMS 0.x: {error}") from None


def _signature_of(open_file: Callable[[str], IO[bytes]]) -> LegacySignature:
    with open_file(LEGACY) as file:
        model = _decode(LEGACY, _content(LEGACY, file), LegacyManifest).model
    with open_file(model.signature) as file:
        return _decode(model.signature, _content(model.signature, file), LegacySignature)


def _read_handler(directory: Path, content: bytes) -> HandlerArchive:
    manifest = _decode(PRESENT, content, HandlerManifest)
    if not manifest.runtime.startswith("python"):
        raise BootError(f"{PRESENT}: runtime {manifest.runtime} cannot be run; only Python can")
    return HandlerArchive(directory, manifest.model, _decode(PRESENT, content, dict[str, Any]))


def _read_legacy(directory: Path, content: bytes) -> LegacyArchive:
    model = _decode(LEGACY, content, LegacyManifest).model
    files = {"Signature": model.signature, "Service": model.service}
    files |= {"Symbol": model.symbol} if model.symbol else {}
    for key, name in files.items():
        if "/" in name or not file_in(directory, name, f"{LEGACY}: Model.{key}").is_file():
            raise BootError(f"{LEGACY}: Model.{key} names {name!r}, which is not in the archive")
    signature = _decode(model.signature, _read(directory / model.signature), LegacySignature)
    names = [each.data_name for each in signature.inputs]
    if not names or len(set(names)) < len(names):
        raise BootError(f"{model.signature}: inputs must have names, and no two the same")
    return LegacyArchive(directory, model, signature, _decode(LEGACY, content, dict[str, Any]))


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        return _content(path.name, file)


def _content(name: str, file: IO[bytes]) -> bytes:
    content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise BootError(f"{name}: is larger than {MAX_BYTES} bytes")
    return content


def _keys(content: bytes) -> Set[str]:
    try:
        return read_json(content, dict[str, msgspec.Raw]).keys()
    except msgspec.DecodeError:
        return frozenset[str]()


def _decode(name: str, content: bytes, kind: type[Document]) -> Document:
    """Return the document in the file *name*.

    :raises BootError: says what is wrong, and where.
    """
    try:
        return read_json(content, kind)
    except msgspec.DecodeError as error:
        raise BootError(f"{name}: {str(error).replace('`', '')}") from None
