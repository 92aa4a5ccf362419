# SPDX-License-Identifier: Apache-2.0
"""JSON that a client has sent to a route."""

from typing import TypeVar

import msgspec

__all__ = ["read_json"]

Kind = TypeVar("Kind")


def read_json(body: bytes | str, kind: type[Kind]) -> Kind:
    """Return *body* as a *kind*, a type that msgspec can decode.

    :raises msgspec.DecodeError: it is not JSON, not UTF-8, nests too deep for the interpreter, or
        (as ``msgspec.ValidationError``) is not of that kind.
    """
    try:
        return msgspec.json.decode(body, type=kind)
    except UnicodeDecodeError as error:
        raise msgspec.DecodeError(f"not UTF-8: {error.reason}") from error
    except RecursionError:
        raise msgspec.DecodeError("the value is nested too deeply") from None
