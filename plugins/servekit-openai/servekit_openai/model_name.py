# SPDX-License-Identifier: Apache-2.0
"""Reads the model that the body of a request names, without decoding a large body.

Clients write the members in any order: ``{"messages": [...], "model": "chat", "tools": [...]}``.
A member belongs to the whole object, not to an object inside it, exactly if the text before it
becomes JSON with a closing brace, or the text behind it becomes JSON with an opening one.
"""

from __future__ import annotations

import re
from itertools import chain, islice
from typing import TYPE_CHECKING, Final

import msgspec

from servekit.errors import BodyMalformed
from servekit_openai.errors import refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["find_name"]

SMALL: Final = 32 << 10  #: bytes of a body that is decoded: 5 µs for text
BEGINNING: Final = 4 << 10  #: bytes at the beginning of a large body that are searched
END: Final = 32 << 10  #: bytes at its end; tools are often behind the name
MOST_KEYS: Final = 256  #: that are looked at in each of the two
MOST: Final = 8  #: members that are tried
KEY: Final = b'"model"'
#: the member; names with escapes are found the slow way
MEMBER: Final = re.compile(rb'"model"[ \t\r\n]{0,9}:[ \t\r\n]{0,9}"[^"\\]{1,256}"')


class Named(msgspec.Struct):
    """The member; all others are skipped."""

    model: str


_decode = msgspec.json.Decoder(Named).decode


def find_name(body: bytes | memoryview) -> str:
    """Return the model that *body* names.

    It takes microseconds, except for a large body that names it in its middle, which is read at
    about 1 GB/s.

    :raises InputError: it names none.
    :raises BodyMalformed: it is not JSON.
    """
    if len(body) > SMALL and (name := _at_the_ends(body)):
        return name
    try:
        return _decode(body).model
    except msgspec.ValidationError as error:
        is_missing = "missing required" in str(error)
        raise refusal("model", "missing" if is_missing else "expected a string") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BodyMalformed(f"body: {error}") from None


def _at_the_ends(body: bytes | memoryview) -> str:
    """Return the name if it stands near one of the ends of *body*; otherwise ""."""
    start, end = bytes(body[:BEGINNING]), bytes(body[-END:])
    befores = (start[: found.end()] + b"}" for found in _members(start, bytes.find))
    behinds = (b"{" + end[found.start() :] for found in _members(end, bytes.rfind))
    for text in chain(islice(befores, MOST), islice(behinds, MOST)):
        try:
            return _decode(text).model
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
    return ""


def _members(text: bytes, find: Callable[..., int]) -> Iterator[re.Match[bytes]]:
    """Yield what looks like the member in *text*, outside of strings, where quotes are escaped.

    :param find: ``bytes.find`` begins at the start of *text*, ``bytes.rfind`` at its end.
    """
    is_forward, start, stop = find is bytes.find, 0, len(text)
    for _ in range(MOST_KEYS):
        at = find(text, KEY, start, stop)
        if at < 0:
            return
        if text[at - 1 : at] != b"\\" and (found := MEMBER.match(text, at)):
            yield found
        start, stop = (at + 1, stop) if is_forward else (start, at + len(KEY) - 1)
