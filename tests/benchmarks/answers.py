# SPDX-License-Identifier: Apache-2.0
"""One request to a server, and whether its answer is right."""

import http.client
import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from tests.benchmarks.errors import WrongAnswer

HOST: Final = "127.0.0.1"
TIMEOUT_S: Final = 10.0


def read_plain(answer: bytes) -> Any:
    """Read ``{"prediction": 12.0}`` or ``{"prediction": {"y": [1.0, 2.0]}}``."""
    found = json.loads(answer)["prediction"]
    return found["y"] if isinstance(found, dict) else found


def read_v2(answer: bytes) -> Any:
    """Read the one number, or all of several, of an answer of the Open Inference Protocol."""
    (output,) = json.loads(answer)["outputs"]
    data = output["data"]
    return data if len(data) > 1 else data[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One prediction to ask for, and what must come back."""

    path: str
    content_type: str
    body: bytes
    expected: float | list[float]  #: elements of float32, exactly
    read: Callable[[bytes], Any] = read_plain
    headers: tuple[tuple[str, str], ...] = ()  #: others than Content-Type

    def is_right(self, answer: bytes) -> bool:
        try:
            found = self.read(answer)
            if isinstance(self.expected, list):
                return np.array_equal(np.float32(found), np.float32(self.expected))
            return bool(found == self.expected)
        except (ValueError, KeyError, TypeError, struct.error):
            return False


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


def check(port: int, request: Request) -> bytes:
    """Ask for one prediction and return the body of the answer.

    :raises WrongAnswer: the status, the body or the connection is not as it must be.
    """
    connection = http.client.HTTPConnection(HOST, port, timeout=TIMEOUT_S)
    asked = f"{len(request.body)} bytes of {request.content_type} ({request.body[:60]!r})"
    try:
        headers = {"Content-Type": request.content_type, **dict(request.headers)}
        connection.request("POST", request.path, request.body, headers)
        response = connection.getresponse()
        answer = response.read()
    except (OSError, http.client.HTTPException) as error:
        raise WrongAnswer(f"no answer to {asked}: {error!r}") from error
    finally:
        connection.close()
    if response.status != http.HTTPStatus.OK or not request.is_right(answer):
        wanted = f"expected {str(request.expected)[:60]} to {asked}"
        raise WrongAnswer(f"{response.status} {answer[:200]!r}, {wanted}")
    return answer
