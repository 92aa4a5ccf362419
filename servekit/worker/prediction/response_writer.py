# SPDX-License-Identifier: Apache-2.0
"""Writes an output as the body of an answer."""

from collections.abc import Callable
from typing import Any, NamedTuple

from servekit.errors import NotAcceptable, ResultNotEncodable, ServekitError
from servekit.service.response import Response
from servekit.worker.prediction.output_mistakes import blame

__all__ = ["BYTES", "Plan", "Writer", "own_body", "write"]

BYTES = (bytes, bytearray, memoryview)


class Writer(NamedTuple):
    """Encodes outputs as one media type."""

    media_type: str
    encode: Callable[[Any], bytes]
    takes_any: bool  #: it refuses no output for its kind, so none after it is tried


class Plan(NamedTuple):
    """What an ``Accept`` allows, best first."""

    values: list[Writer]
    raw: list[Writer]  #: for an output of bytes


def write(plan: Plan, output: Any) -> tuple[str, bytes]:
    """Return the media type and the body of *output*.

    :raises NotAcceptable: nothing that the client accepts can hold such an output.
    :raises ResultNotEncodable: the output is not what its media type can write.
    """
    unfit: tuple[ResultNotEncodable, Callable[[Any], bytes]] | None = None
    for media_type, encode, _ in plan.raw if isinstance(output, BYTES) else plan.values:
        try:
            return media_type, encode(output)
        except TypeError:
            continue
        except ResultNotEncodable as error:
            unfit = error, encode
        except (ServekitError, MemoryError):
            raise
        except UnicodeEncodeError:  # which only JSON can hold
            reason = f"output: a text with a lone surrogate is not {media_type}"
            unfit = ResultNotEncodable(reason), encode
        except Exception as error:
            raise ResultNotEncodable(f"output: {error}") from error
    if unfit is None:
        raise NotAcceptable(f"Accept: none of it can hold {_kind(output)}")
    raised, encode = unfit
    raise ResultNotEncodable(blame(encode, output, str(raised))) from raised.__cause__


def own_body(response: Response) -> bytes:
    """Return the output of a *response* with a content type of its own.

    :raises ResultNotEncodable: it is neither bytes nor a text.
    """
    body = response.output.encode() if isinstance(response.output, str) else response.output
    if not isinstance(body, BYTES):
        raise ResultNotEncodable(f"output: {type(body).__name__}, expected bytes or a text")
    return bytes(body)


def _kind(output: Any) -> str:
    names = {
        dict: "an object",
        list: "an array",
        tuple: "an array",
        str: "a text",
        type(None): "null",
    }
    kind = "bytes" if isinstance(output, BYTES) else names.get(type(output))
    return kind or ("a number" if isinstance(output, int | float) else type(output).__name__)
