# SPDX-License-Identifier: Apache-2.0
"""Does a server answer, and does it answer right?"""

import http.client
import json
from collections.abc import Sequence
from typing import Final

from tests.benchmarks.errors import WrongAnswer

HOST: Final = "127.0.0.1"
INPUT: Final = (1.5, 2.5, 3.5, 4.5)  #: what every measured request holds
TIMEOUT_S: Final = 10.0


def answers_get(port: int, path: str) -> bool:
    """Return whether a GET of *path* is answered with 200 just now."""
    connection = http.client.HTTPConnection(HOST, port, timeout=TIMEOUT_S)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def check(port: int, path: str, values: Sequence[float] = INPUT) -> None:
    """Ask for one prediction; halves add up exactly, so the answer has to be equal.

    :raises WrongAnswer: the status, the body or the connection is not as it must be.
    """
    connection = http.client.HTTPConnection(HOST, port, timeout=TIMEOUT_S)
    body = json.dumps({"x": list(values)})
    try:
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        answer = response.read()
    except (OSError, http.client.HTTPException) as error:
        raise WrongAnswer(f"no answer to {body}: {error!r}") from error
    finally:
        connection.close()
    if response.status != http.HTTPStatus.OK or not _is_prediction(answer, sum(values)):
        raise WrongAnswer(f"{response.status} {answer[:200]!r} to {body}")


def _is_prediction(answer: bytes, expected: float) -> bool:
    try:
        return bool(json.loads(answer) == {"prediction": expected})
    except ValueError:
        return False
