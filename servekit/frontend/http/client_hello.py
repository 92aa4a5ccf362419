# SPDX-License-Identifier: Apache-2.0
"""The first message of a TLS client (RFC 8446 4.1.2), as far as ALPN needs it (RFC 7301). Pure.

Python's ssl reports neither what a client offers, nor that none of it is supported.
"""

from __future__ import annotations

from typing import Final

__all__ = ["NO_PROTOCOL", "ClientHello"]

#: fatal alert 120, ``no_application_protocol``, before anything has been agreed on
NO_PROTOCOL: Final = bytes((21, 3, 3, 0, 2, 2, 120))
HANDSHAKE, CLIENT_HELLO, ALPN = 22, 1, 16
RECORD_BYTES, HEAD_BYTES = 5, 4  #: before the content of a record, and of a message
BEFORE_SESSION = 34  #: version and random
MAX_BYTES = 65_536


class ClientHello:
    """Collects the data of a client until its first message is whole."""

    def __init__(self) -> None:
        """Begin without data."""
        self._data = b""

    def offers(self, data: bytes) -> list[bytes] | None:
        """Take *data*; return the protocols that are offered, or ``None`` while more is needed.

        Bytes that are not a ClientHello offer nothing: OpenSSL reports what is wrong with them.
        """
        self._data += data
        try:
            return protocols_in(message_in(self._data))
        except EOFError:
            return None if len(self._data) < MAX_BYTES else []
        except (IndexError, ValueError):
            return []


def message_in(data: bytes) -> bytes:
    """Return the content of the ClientHello in the records of *data*.

    :raises EOFError: it is not whole.
    :raises ValueError: it is missing.
    """
    message, at = b"", 0
    while at < len(data):
        if data[at] != HANDSHAKE:
            raise ValueError
        if len(data) < at + RECORD_BYTES:
            break
        end = at + RECORD_BYTES + int.from_bytes(data[at + 3 : at + 5], "big")
        message += data[at + RECORD_BYTES : end]
        at = end
        if len(message) >= HEAD_BYTES:
            if message[0] != CLIENT_HELLO:
                raise ValueError
            size = HEAD_BYTES + int.from_bytes(message[1:4], "big")
            if len(message) >= size:
                return message[HEAD_BYTES:size]
    raise EOFError


def protocols_in(message: bytes) -> list[bytes]:
    """Return the names that the ALPN extension of *message* lists, if it has one."""
    at = BEFORE_SESSION
    at += 1 + message[at]
    at += 2 + int.from_bytes(message[at : at + 2], "big")
    at += 1 + message[at]
    at += 2
    while at + 4 <= len(message):
        kind = int.from_bytes(message[at : at + 2], "big")
        end = at + 4 + int.from_bytes(message[at + 2 : at + 4], "big")
        if kind == ALPN:
            return names_in(message[at + 6 : end])
        at = end
    return []


def names_in(text: bytes) -> list[bytes]:
    """Return the names in *text*, each behind its length."""
    names, at = [], 0
    while at < len(text):
        names.append(text[at + 1 : at + 1 + text[at]])
        at += 1 + text[at]
    return names
