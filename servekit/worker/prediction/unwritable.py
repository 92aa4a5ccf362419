# SPDX-License-Identifier: Apache-2.0
"""Whose fault it is that an output cannot be written: the client's if its input could not be."""

from collections.abc import Callable

from servekit.errors import ClientError, RequestError, ResultNotEncodable
from servekit.service.base import Request
from servekit.worker.prediction.response_writer import Plan, write

__all__ = ["blamed"]


def blamed(
    error: BaseException, plan: Plan, request: Callable[[], Request], *, has_preprocess: bool
) -> BaseException:
    """Return *error*, or the client's if its own input could not be written by *plan* either.

    So it is with NaN that came as msgpack and was to go back as JSON.
    """
    if not isinstance(error, ResultNotEncodable):
        return error
    try:
        reason = _unfit(plan, request(), has_preprocess)
    except BaseException:  # noqa: BLE001 - a plugin's codec may raise anything
        return error
    shown = f"Accept: what the input holds cannot be written so: {reason}"
    return ClientError(shown) if reason else error


def _unfit(plan: Plan, request: Request, has_preprocess: bool) -> str:
    """Return why the input of *request* cannot be written; "" if that is not why."""
    try:
        value = request.input
    except RequestError as unfit:  # with lone surrogates it was an input nevertheless
        return "" if has_preprocess else unfit.detail
    try:
        write(plan, value)
    except ResultNotEncodable as unfit:
        return str(unfit).removeprefix("output").lstrip(": .")
    except RequestError:  # the media type is for another kind of value
        return ""
    return ""
