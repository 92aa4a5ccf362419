# SPDX-License-Identifier: Apache-2.0
"""JSON that a client has sent to a route."""

from typing import TypeVar

import msgspec

__all__ = ["decode_problem", "read_json"]

Kind = TypeVar("Kind")


def decode_problem(error: msgspec.DecodeError | UnicodeDecodeError) -> str:
    """Return what *error*, which msgspec raised, says of a body.

    What is not UTF-8 is a ``UnicodeDecodeError`` in msgspec 0.22, and a ``DecodeError`` since 0.23.
    """
    text = str(error)
    is_encoding = isinstance(error, UnicodeDecodeError) or text.startswith("Invalid UTF-8")
    return "not UTF-8" if is_encoding else text


def read_json(body: bytes | str, kind: type[Kind]) -> Kind:
    """Return *body* as a *kind*, a type that msgspec can decode.

    :raises msgspec.DecodeError: it is not JSON, not UTF-8, nests too deep for the interpreter, or
        (as ``msgspec.ValidationError``) is not of that kind.
    """
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError:
        raise
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise msgspec.DecodeError(decode_problem(error)) from error
    except RecursionError:
        raise msgspec.DecodeError("the value is nested too deeply") from None
