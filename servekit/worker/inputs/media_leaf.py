# SPDX-License-Identifier: Apache-2.0
"""Files in annotations: ``File``, ``Image`` and ``Audio`` of ``servekit.types``."""

import re
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Final, NamedTuple

import msgspec

from servekit.mistakes import mistake_of
from servekit.types import Audio, File, Image, MediaRefused
from servekit.worker.inputs.leaves import Leaf, NotOfType

__all__ = ["LEAVES", "MediaLeaf"]

BYTES: Final = "application/octet-stream"
#: parts of media types that are read as mappings or lists, not as files
STRUCTURED: Final = ("json", "msgpack", "multipart/")
EXPECTED: Final = 'expected a file: a part of a form, or {"b64": ...}'
A_URL: Final = (
    "a URL is not accepted, as nothing is fetched for a client; send the file itself, "
    'as a part of a form or {"b64": ...}'
)
URL: Final = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)

#: samples for the API descriptions: one pixel, and eight samples of sound
PIXEL: Final = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNoAAAAggCBd81ytgAAAABJRU5ErkJggg=="
)
SILENCE: Final = "UklGRiwAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQgAAACAgICAgICAgA=="


class SentFile(msgspec.Struct, forbid_unknown_fields=True):
    """A file in JSON or msgpack."""

    b64: bytes
    name: str = ""
    content_type: str = ""


class MediaKind(NamedTuple):
    """One type of file."""

    type: Any
    media: str  #: how its media types begin, ``image/``; "" takes any
    sample: str  #: base64
    module: str = ""  #: imported before the first file comes
    reader: str = ""  #: a function of ``module`` that makes the value of the content


class MediaLeaf(Leaf):
    """Makes files of one kind from what a client sends."""

    def __init__(self, kind: MediaKind) -> None:
        self._kind = kind

    def takes(self, media_type: str) -> bool:
        """Whether a body of *media_type* is such a file."""
        if any(each in media_type for each in STRUCTURED):
            return False
        return media_type == BYTES or media_type.startswith(self._kind.media)

    def prepare(self) -> Callable[[bytes], Any] | None:
        """Import and return what reads the content of such files.

        :raises ImportError: it is not installed.
        """
        module = self._kind.module
        return getattr(import_module(module), self._kind.reader) if module else None

    def make(self, value: Any) -> Any:
        """Return the value of a part of a form, of bytes, or of ``{"b64": ...}``."""
        if isinstance(value, self._kind.type) and self._kind.type is not File:
            return value
        file, read = _file(value), self.prepare()
        try:
            return read(file.content) if read else file
        except MediaRefused as error:
            raise NotOfType(("", str(error))) from None

    def from_json(self, body: bytes) -> Any:
        """Return the value of a JSON text."""
        return self.make(msgspec.json.decode(body))

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of such a file in JSON."""
        content = {
            "type": "string",
            "contentEncoding": "base64",
            "contentMediaType": f"{self._kind.media}*" if self._kind.media else BYTES,
        }
        return {
            "title": self._kind.type.__name__,
            "description": "A file: a part of a form, or base64 in JSON.",
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
    if _is_url(value):
        raise NotOfType(("", A_URL))
    if not isinstance(value, Mapping):
        raise NotOfType(("", EXPECTED))
    try:
        sent = msgspec.convert(value, SentFile)
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        raise NotOfType(mistake_of(error)) from None
    return File(sent.name, sent.content_type, sent.b64)


def _is_url(value: Any) -> bool:
    if isinstance(value, Mapping) and "b64" not in value:
        return any(key in value for key in ("url", "uri"))
    return isinstance(value, str) and URL.match(value) is not None


LEAVES: Final[Mapping[Any, MediaLeaf]] = {
    kind.type: MediaLeaf(kind)
    for kind in (
        MediaKind(File, "", "AAAA"),
        MediaKind(Image, "image/", PIXEL, "servekit.types.images", "read_image"),
        MediaKind(Audio, "audio/", SILENCE, "servekit.types.audio", "read_audio"),
    )
}
