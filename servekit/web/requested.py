# SPDX-License-Identifier: Apache-2.0
"""Numbers in the query of a request."""

import math
from typing import Final

from flask import request

from servekit.errors import RequestError
from servekit.web.errors import quoted

__all__ = ["MAX_WAIT_S", "asked_number", "asked_wait"]

MAX_WAIT_S: Final = 600.0


def asked_wait() -> float:
    """Return how many seconds the client wants to wait, as far as it may.

    :raises RequestError: ``wait`` is not a number of seconds.
    """
    return min(asked_number("wait", 0.0), MAX_WAIT_S)


def asked_number(name: str, default: float) -> float:
    """Return the parameter *name*.

    :raises RequestError: it is not a number, or negative.
    """
    text = request.args.get(name, "")
    try:
        number = float(text or default)
    except ValueError:
        number = math.nan
    if not number >= 0:
        message = f"{quoted(text)} is not a number from 0 on"
        raise RequestError(f"{name}: {message}", [{"field": name, "message": message}])
    return number
