# SPDX-License-Identifier: Apache-2.0
"""Writes an output as the body of an answer, or says whose fault it is that it cannot."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from servekit.errors import (
    ClientError,
    NotAcceptable,
    RequestError,
    ResultNotEncodable,
    ServekitError,
)
from servekit.ipc.batches import BETWEEN_STEPS
from servekit.service.request import Request
from servekit.service.response import Response, head_of
from servekit.worker.outputs.with_files import NotOfItsType
from servekit.worker.prediction.negotiation import Plan
from servekit.worker.prediction.output_mistakes import Encode, find_mistake

__all__ = ["blame_client", "own_body", "respond", "write", "written"]

BYTES = (bytes, bytearray, memoryview)
NAMES: Final[Mapping[type, str]] = {
    dict: "an object",
    list: "an array",
    tuple: "an array",
    str: "a string",
    type(None): "null",
}


def write(plan: Plan, output: Any) -> tuple[str, bytes]:
    """Return the media type and the body of *output*.

    :raises NotAcceptable: no media type that the client accepts can hold such an output.
    :raises ResultNotEncodable: the media type that could hold it cannot write this one.
    """
    unfit: tuple[ResultNotEncodable, Encode] | None = None
    if plan.of_media is not None:
        plan = plan.of_media(output)
    writers = plan.raw if isinstance(output, BYTES) else plan.values
    for media_type, encode, _, is_enveloped in writers:
        try:
            return media_type, encode({"prediction": output} if is_enveloped else output)
        except TypeError:
            continue
        except NotOfItsType:
            raise
        except ResultNotEncodable as error:
            unfit = error, encode
        except (ServekitError, MemoryError):
            raise
        except UnicodeEncodeError:  # only JSON can hold it
            reason = f"output: a string with a lone surrogate cannot be written as {media_type}"
            unfit = ResultNotEncodable(reason), encode
        except Exception as error:
            raise ResultNotEncodable(f"output: {error}") from error
    if unfit is None:
        raise NotAcceptable(f"Accept: none of it can hold {_kind(output)}")
    raised, encode = unfit
    raise ResultNotEncodable(find_mistake(encode, output, str(raised))) from raised.__cause__


def own_body(response: Response) -> bytes:
    """Return the output of a *response* that sets its content type.

    :raises ResultNotEncodable: it is neither bytes nor a string.
    """
    body = response.output.encode() if isinstance(response.output, str) else response.output
    if not isinstance(body, BYTES):
        raise ResultNotEncodable(f"output: {type(body).__name__}, expected bytes or str")
    return bytes(body)


def respond(
    plan: Plan, response: Response, limit: int
) -> tuple[int, list[tuple[str, str]], str, bytes]:
    """Return the status, the headers, the media type and the body of *response*.

    :raises ResultNotEncodable: it is not valid, or its body has more than *limit* bytes.
    """
    status, headers, content_type = head_of(response)
    if isinstance(response.output, Response):
        raise ResultNotEncodable("output: a Response within a Response")
    if content_type is None:
        return status, headers, *written(plan, response.output, limit)
    return status, headers, *_checked(content_type, own_body(response), limit)


def written(plan: Plan, output: Any, limit: int) -> tuple[str, bytes]:
    """Return the media type and the body of *output*. Raises what a codec raises.

    :raises ResultNotEncodable: the body has more than *limit* bytes.
    """
    media_type, body = write(plan, output)
    return _checked(media_type, body, limit)


def _checked(media_type: str, body: bytes, limit: int) -> tuple[str, bytes]:
    """Return *media_type* and *body*, whatever kind of buffer a codec returned.

    :raises ResultNotEncodable: it is not a buffer, or has more than *limit* bytes.
    """
    if type(body) is not bytes:
        if not isinstance(body, BYTES):
            kind = type(body).__name__
            raise ResultNotEncodable(f"{media_type}: its codec returned a {kind}, not bytes")
        body = bytes(body)
    if len(body) > limit:
        raise ResultNotEncodable(f"output: {len(body)} bytes, limit {limit}")
    return media_type, body


def _kind(output: Any) -> str:
    if isinstance(output, BYTES):
        return "bytes"
    kind = "a number" if isinstance(output, int | float) else type(output).__name__
    return NAMES.get(type(output), kind)


def blame_client(
    error: BaseException, plan: Plan, request: Callable[[], Request], *, has_preprocess: bool
) -> BaseException:
    """Return *error*, or a ``ClientError`` if *plan* could not write the input of *request* either.

    An example is NaN that came as msgpack and should be sent back as JSON.
    """
    if not isinstance(error, ResultNotEncodable) or isinstance(error, NotOfItsType):
        return error
    if any(each.media_type in BETWEEN_STEPS for each in plan.values):  # not for the client
        return error
    try:
        reason = _unfit(plan, request(), has_preprocess)
    except BaseException:  # noqa: BLE001 - a plugin's codec may raise anything
        return error
    return (
        ClientError(f"Accept: none of it can hold what the input holds: {reason}")
        if reason
        else error
    )


def _unfit(plan: Plan, request: Request, has_preprocess: bool) -> str:
    """Return why the input of *request* cannot be written; "" if it can."""
    try:
        value = request.input
    except RequestError as unfit:  # lone surrogates, which an input may hold nevertheless
        return "" if has_preprocess else unfit.detail
    try:
        write(plan, value)
    except NotOfItsType:
        return ""
    except ResultNotEncodable as unfit:
        return str(unfit).removeprefix("output").lstrip(": .")
    except RequestError:  # the media type is for another kind of value
        return ""
    return ""
