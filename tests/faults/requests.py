# SPDX-License-Identifier: Apache-2.0
"""Requests as bytes, each with what only its own answer holds, and the moment it is due."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.faults.ledger import Ledger


def always(_ledger: Ledger) -> bool:
    """Wait for nothing."""
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Shot:
    """One request to be sent at a fixed moment."""

    id: str
    wire: bytes
    at: float = 0.0  #: seconds after the start of the run
    kind: str = "good"
    echo: bytes = b""  #: a 200 without it is somebody else's
    is_fresh: bool = False  #: on a connection of its own
    leave_after_s: float | None = None  #: the client goes away without waiting any longer
    once: Callable[[Ledger], bool] = always  #: it is not sent before this holds

    def leaving(self, after_s: float) -> Shot:
        """Return the same from a client that goes away after *after_s*."""
        return replace(self, leave_after_s=after_s)

    def due(self, at: float) -> Shot:
        """Return the same for another moment."""
        return replace(self, at=at)


def post(path: str, body: bytes, content_type: str = "application/json", **headers: str) -> bytes:
    """Return a POST as it goes over the wire."""
    lines = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", f"Content-Type: {content_type}"]
    lines += [f"{name.replace('_', '-')}: {text}" for name, text in headers.items()]
    lines += [f"Content-Length: {len(body)}", "", ""]
    return "\r\n".join(lines).encode() + body


def get(path: str) -> bytes:
    """Return a GET as it goes over the wire."""
    return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()


def predict(
    model: str,
    request_id: str,
    item: dict[str, Any] | None = None,
    headers: dict[str, str] | None = None,
    **shot: Any,
) -> Shot:
    """Ask *model* for an output with our id in it; the fault models give it back."""
    body = json.dumps({"id": request_id} | (item or {})).encode()
    wire = post(f"/{model}/predict", body, X_Request_Id=request_id, **(headers or {}))
    return Shot(id=request_id, wire=wire, echo=b'"%b"' % request_id.encode(), **shot)


def steady(
    model: str, rate: float, seconds: float, name: str, begin: float = 0.0, **shot: Any
) -> Iterator[Shot]:
    """Yield predictions at fixed moments, evenly spaced."""
    for number in range(round(rate * seconds)):
        yield predict(model, f"{name}-{number}", at=begin + number / rate, **shot)


def pings(rate: float, seconds: float, path: str = "/ping") -> Iterator[Shot]:
    """Yield health checks, each on a connection of its own."""
    for number in range(round(rate * seconds)):
        shot = Shot(id=f"ping-{number}", wire=get(path), kind="ping", is_fresh=True)
        yield shot.due(number / rate)
