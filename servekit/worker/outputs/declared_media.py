# SPDX-License-Identifier: Apache-2.0
"""Media in annotations of outputs: their formats, and whether these can be written here."""

import sys
from typing import Any, Final, NamedTuple

from servekit.errors import BootError
from servekit.service.response import Response, plain_text
from servekit.types import Audio, File, Image
from servekit.types.formats import FORMAT, OutputFormat
from servekit.worker.codecs.media import file_of
from servekit.worker.inputs.type_hints import peeled

__all__ = ["ANY_TYPE", "DeclaredMedia", "format_of", "media_of"]

#: media types in which files are a part of something else
AS_BASE64: Final = (
    "application/json",
    *(f"application/{prefix}msgpack" for prefix in ("", "x-", "vnd.")),
)
ANY_TYPE: Final = "*/*"  #: stands for the type of files that is not declared


class DeclaredMedia(NamedTuple):
    """One annotation of media: ``Annotated[Image, Format("image/jpeg", quality=85)]``."""

    type: Any  #: ``Image``, ``Audio`` or ``File``
    format: OutputFormat | None = None

    def check(self) -> None:
        """Import what writes it.

        :raises BootError: it cannot be written as it is declared.
        """
        (declared, *_) = self.media_types()
        if self.type is File and declared != ANY_TYPE:
            _check_type_of_file(declared)

    def media_types(self) -> list[str]:
        """Return the media types that it can be written as; the first is for clients that take any.

        :raises BootError: a library is missing, or the declared one cannot be written.
        """
        declared = self.format.media_type if self.format is not None else ""
        if self.type is File:
            return [declared or ANY_TYPE]
        written = _written_images() if self.type is Image else _written_audio()
        if declared == "audio/flac" and self.type is Audio and declared not in written:
            raise BootError("audio/flac needs soundfile, pip install soundfile")
        if declared and declared not in written:
            kind = self.type.__name__
            raise BootError(f"an {kind} cannot be {declared}; one of {', '.join(written)}")
        return sorted(written, key=lambda each: each != declared)

    @property
    def best(self) -> str:
        """The media type within JSON; "" for a file whose type is not declared."""
        return self.format.media_type if self.format is not None else DEFAULTS[self.type]

    def file_of(self, value: Any, media_type: str = "") -> File:
        """Return *value*, which is of ``type``, as a file.

        :param media_type: one of ``media_types()``; "" is ``best``.
        :raises ValueError: it cannot be written as that, or a file has another type.
        """
        media_type = media_type or self.best
        if self.type is not File:
            quality = self.format.quality if self.format is not None else None
            bits = self.format.bits if self.format is not None else None
            return file_of(value, media_type, quality, bits or 16)
        name = plain_text("name of a file", value.name or "")
        content_type = plain_text("content_type of a file", value.content_type or "")
        found = content_type.partition(";")[0].strip().lower()
        if media_type and found and found != media_type:
            raise ValueError(f"a file of {found[:80]}, declared as {media_type}")
        return File(name, content_type or media_type, value.content)

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of such an output in JSON."""
        best, is_file = self.best, self.type is File
        content = {"type": "string", "contentEncoding": "base64"}
        content_type = {"type": "string"} if is_file else {"type": "string", "const": best}
        properties = {
            "b64": content | ({"contentMediaType": best} if best else {}),
            "content_type": content_type,
            **({"name": {"type": "string"}} if is_file else {}),
        }
        return {
            "title": self.type.__name__,
            "description": "The content of a file as base64.",
            "type": "object",
            "properties": properties,
            "required": ["b64", "content_type"] if best else ["b64"],
        }


DEFAULTS: Final = {Image: "image/png", Audio: "audio/wav", File: ""}


def media_of(type_: Any) -> DeclaredMedia | None:
    """Return the media that *type_* is; ``None`` if it is something else."""
    kind = type_
    while (inner := peeled(kind)) is not kind:
        kind = inner
    found = _kind_of(kind)
    return DeclaredMedia(found, format_of(type_)) if found is not None else None


def format_of(type_: Any) -> OutputFormat | None:
    """Return what a ``Format`` around *type_* declares; ``None`` without one."""
    while True:
        for meta in getattr(type_, "__metadata__", ()):
            declared: OutputFormat | None = (getattr(meta, "extra", None) or {}).get(FORMAT)
            if declared is not None:
                return declared
        inner = peeled(type_)
        if inner is type_:
            return None
        type_ = inner


def _kind_of(type_: Any) -> Any:
    if not isinstance(type_, type):
        return None
    pillow = sys.modules.get("PIL.Image")
    if pillow is not None and issubclass(type_, pillow.Image):
        return Image
    return next((media for media in DEFAULTS if issubclass(type_, media)), None)


def _check_type_of_file(media_type: str) -> None:
    """Refuse a *media_type* that no file can be sent as.

    :raises BootError: it is one.
    """
    if media_type in AS_BASE64:
        raise BootError(f"a File cannot be {media_type}, in which files are base64")
    try:
        Response(b"", content_type=media_type)
    except ValueError as error:
        raise BootError(f"a File cannot be {error}") from None


def _written_images() -> list[str]:
    try:
        from servekit.types.images import WRITTEN
    except ImportError as error:
        raise BootError(str(error)) from None
    return [*WRITTEN]


def _written_audio() -> list[str]:
    from servekit.types.audio import writable

    return writable()
