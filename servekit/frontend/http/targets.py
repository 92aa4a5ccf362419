# SPDX-License-Identifier: Apache-2.0
"""Request targets (RFC 9112 3.2): their forms, and the path in one."""

from __future__ import annotations

import re
from urllib.parse import unquote_to_bytes

from servekit.errors import RequestError
from servekit.frontend.http.fields import check_host

__all__ = ["ASTERISK", "in_origin_form", "path_of"]

ASTERISK = b"*"  #: target of an OPTIONS request about the server as a whole
MAX_KNOWN = 256
MAX_KNOWN_BYTES = 256
# RFC 3986 3.3; of the query only what a request line cannot have is refused: browsers leave some
# characters in it unencoded
ORIGIN = re.compile(
    rb"/(?:[A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{2})*(?:\?[^#\x00-\x20\x7f-\xff]*)?"
)
ABSOLUTE = re.compile(rb"https?://([^/?#]*)([^#]*)", re.IGNORECASE)
CONTROL = re.compile(rb"%[01][0-9A-Fa-f]|%7[Ff]")
ENCODED_SLASH = re.compile(rb"%2[Ff]")

#: targets in origin form found well-formed; bounded, shared by all connections
known: set[bytes] = set()


def in_origin_form(method: bytes, target: bytes) -> tuple[bytes, bytes]:
    """Return *target* in origin form, or ``*``; and the authority of an absolute one, else b"".

    :raises RequestError: it has no form that is allowed with *method*.
    """
    authority = b""
    if found := ABSOLUTE.fullmatch(target):
        authority, target = found.groups()
        check_host(authority)
        if not target and method == b"OPTIONS":
            return ASTERISK, authority  # the whole server (RFC 9112 3.2.4)
        if not target.startswith(b"/"):
            target = b"/" + target
    elif target == ASTERISK and method == b"OPTIONS":
        return target, authority
    if not ORIGIN.fullmatch(target):
        raise RequestError("request target: neither a well-formed path nor an http URL")
    if CONTROL.search(target.partition(b"?")[0]):
        raise RequestError("request target: a control character in the path")
    if not authority and len(known) < MAX_KNOWN and len(target) <= MAX_KNOWN_BYTES:
        known.add(target)
    return target, authority


def path_of(target: bytes) -> bytes:
    """Return the decoded path of a *target* in origin form.

    An encoded slash stays encoded: it is part of a name, not a separator (RFC 3986 2.2).
    """
    path = target.partition(b"?")[0]
    if b"%" not in path:
        return path
    return b"%2F".join(unquote_to_bytes(part) for part in ENCODED_SLASH.split(path))
