# SPDX-License-Identifier: Apache-2.0
"""How responses of a route are written, where a manifest or the code of a service chooses it.

The routing table has a style for each route. Routes share workers, so the front-end sends the
style along with each request whose route has one.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec
from msgspec import Struct, structs

__all__ = ["URLENCODED", "ResponseStyle", "StreamStyle", "bare_style", "style_of", "wants_stream"]

MSGPACK: Final = (b"application/msgpack", b"application/x-msgpack", b"application/vnd.msgpack")

URLENCODED: Final = b"application/x-www-form-urlencoded"
ANYTHING_ELSE: Final = b", */*;q=0.9"


class StreamStyle(Struct, array_like=True, frozen=True):
    """How outputs that are sent one by one are written, and how a client asks for them."""

    end: str | None = None  #: data of the last event, "" for none; ``None``: the event ``end``
    raw: bool = False  #: the data of an event is the text of an output that is a string
    field: str = ""  #: member of the body that asks for a stream; "": ``Accept`` alone does


class ResponseStyle(Struct, array_like=True, frozen=True):
    """How the responses of a route are written; the defaults are those of any other route."""

    is_bare: bool = False  #: the body is the output, without ``{"prediction": ...}`` around it
    stream: StreamStyle = StreamStyle()
    #: the member ``stream.field`` of the body, if the front-end has read it
    wants_stream: bool | None = None
    #: the media type of bodies whose requests name none, and of responses to clients that accept
    #: any; "": none
    media_type: str = ""

    @property
    def whole(self) -> "ResponseStyle | None":
        """The style of responses that are never streamed."""
        found = ResponseStyle(self.is_bare, media_type=self.media_type)
        return None if found == USUAL else found

    def fill(self, content_type: bytes, accept: bytes) -> tuple[bytes, bytes]:
        """Return *content_type* and *accept*, with ``media_type`` where a client named none.

        curl names a form for any body, and forms of that kind are never read.
        """
        named = self.media_type.encode()
        if not content_type or content_type.lower() == URLENCODED:
            content_type = named
        return content_type, named + ANYTHING_ELSE if accept in (b"", b"*/*") else accept


USUAL: Final = ResponseStyle()


@lru_cache(maxsize=256)
def bare_style(style: ResponseStyle | None) -> ResponseStyle:
    """Return *style*, that of a route, for responses that are the output alone."""
    return structs.replace(style or USUAL, is_bare=True)


def style_of(
    named: Mapping[str, Any], default: ResponseStyle | None = None
) -> ResponseStyle | None:
    """Return the style that the keys of *named* ask for; ``None`` if it is the usual one.

    :param named: a manifest, a route of it or an endpoint; it has been checked.
    :param default: of the model, for keys that are missing or ``None``.
    """
    base = default or USUAL
    envelope, stream = named.get("envelope"), named.get("stream")
    found = ResponseStyle(
        base.is_bare if envelope is None else not envelope,
        base.stream if stream is None else StreamStyle(**stream),
        media_type=named.get("media_type") or base.media_type,
    )
    return None if found == USUAL else found


def wants_stream(field: str, content_type: bytes, body: bytes | memoryview) -> bool | None:
    """Return the value of the member *field* of *body*, JSON or msgpack.

    :param content_type: as received.
    :return: ``None`` if there is no such member, or it is not a boolean.
    """
    media_type = content_type.partition(b";")[0].strip().lower()
    is_json = media_type == b"application/json" or media_type.endswith(b"+json")
    if not is_json and media_type not in MSGPACK:
        return None
    try:
        found: bool | None = _decoder(field, is_json=is_json)(body).wanted
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None  # reading the input reports what is wrong with the body
    return found


@lru_cache(maxsize=256)
def _decoder(field: str, *, is_json: bool) -> Callable[[bytes | memoryview], Any]:
    """Return a decoder that skips everything but *field*."""
    wanted = ("wanted", bool | None, msgspec.field(default=None, name=field))
    body = msgspec.defstruct("Body", [wanted])
    return msgspec.json.Decoder(body).decode if is_json else msgspec.msgpack.Decoder(body).decode
