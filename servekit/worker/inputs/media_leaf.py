# SPDX-License-Identifier: Apache-2.0
"""Files in annotations: ``File``, ``Image`` and ``Audio`` of ``servekit.types``."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Final, NamedTuple

import msgspec

from servekit.types import Audio, File, Image
from servekit.types.media import MediaRefused
from servekit.worker.inputs.leaves import NotOfType

__all__ = ["LEAVES", "MediaLeaf"]

BYTES: Final = "application/octet-stream"
#: what is read as a mapping or a list, not as a file
STRUCTURED: Final = ("json", "msgpack", "multipart/")
EXPECTED: Final = 'expected a file: a part of a form, or {"b64": ...}'

#: one pixel, and eight samples: for those who try what they do not know
PIXEL: Final = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNoAAAAggCBd81ytgAAAABJRU5ErkJggg=="
)
SILENCE: Final = "UklGRiwAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQgAAACAgICAgICAgA=="


class Sent(msgspec.Struct, forbid_unknown_fields=True):
    """A file in JSON, or in msgpack."""

    b64: bytes
    name: str = ""
    content_type: str = ""


class MediaKind(NamedTuple):
    """One type of file."""

    type: Any
    read: Callable[[File], Any]
    media: str  #: the first part of its media types, ``image/``; "" takes any
    sample: str  #: base64
    reader: str = ""  #: the module that ``read`` imports


class MediaLeaf:
    """Makes files of one kind of what a client sends."""

    def __init__(self, kind: MediaKind) -> None:
        """Make *kind*."""
        self._kind = kind

    def takes(self, media_type: str) -> bool:
        """Whether a body of *media_type* is such a file."""
        if any(each in media_type for each in STRUCTURED):
            return False
        return media_type == BYTES or media_type.startswith(self._kind.media)

    def prepare(self) -> None:
        """Import what reads such files, before the first one comes.

        :raises ImportError: it is not installed.
        """
        if self._kind.reader:
            import_module(self._kind.reader)

    def make(self, value: Any) -> Any:
        """Make one of a part of a form, bytes, or ``{"b64": ...}``."""
        if isinstance(value, self._kind.type) and self._kind.type is not File:
            return value
        try:
            return self._kind.read(_file(value))
        except MediaRefused as error:
            raise NotOfType(("", str(error))) from None

    def from_json(self, body: bytes) -> Any:
        """Make one of a JSON text."""
        return self.make(msgspec.json.decode(body))

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the file in JSON."""
        content = {
            "type": "string",
            "contentEncoding": "base64",
            "contentMediaType": f"{self._kind.media}*" if self._kind.media else BYTES,
        }
        return {
            "title": self._kind.type.__name__,
            "description": "A file: in a form a part as it is, in JSON as base64.",
            "type": "object",
            "properties": {
                "b64": content,
                "name": {"type": "string"},
                "content_type": {"type": "string"},
            },
            "required": ["b64"],
            "additionalProperties": False,
            "examples": [{"b64": self._kind.sample}],
        }


def _file(value: Any) -> File:
    if isinstance(value, File):
        return value
    if isinstance(value, bytes | memoryview):
        return File("", "", bytes(value))
    if not isinstance(value, Mapping):
        raise NotOfType(("", EXPECTED))
    try:
        sent = msgspec.convert(value, Sent)
    except msgspec.ValidationError as error:
        from servekit.worker.inputs.mistakes import name_mistake  # which looks at leaves, too

        raise NotOfType(name_mistake(error)) from None
    return File(sent.name, sent.content_type, sent.b64)


def _image(file: File) -> Any:
    from servekit.types.images import read_image

    return read_image(file.content)


def _audio(file: File) -> Any:
    from servekit.types.audio import read_audio

    return read_audio(file.content)


LEAVES: Final[Mapping[Any, MediaLeaf]] = {
    kind.type: MediaLeaf(kind)
    for kind in (
        MediaKind(File, lambda file: file, "", "AAAA"),
        MediaKind(Image, _image, "image/", PIXEL, "servekit.types.images"),
        MediaKind(Audio, _audio, "audio/", SILENCE, "servekit.types.audio"),
    )
}
