# SPDX-License-Identifier: Apache-2.0
"""``/recordings`` of the management listener: one recording at a time."""

from __future__ import annotations

import os
from time import time
from typing import TYPE_CHECKING, Any

import gevent
import msgspec
from flask import Blueprint, Response, jsonify, request

from servekit import __version__
from servekit.errors import ClientError
from servekit_record.errors import AlreadyRecording, RecordingNotFound
from servekit_record.order import RecordingOrder, Shelf
from servekit_record.recorder import LOOK_S, SECRETS
from servekit_record.recording import RecordingHead, line_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["create_blueprint"]


def create_blueprint(directory: Path) -> Blueprint:
    """Return the routes of the recording in *directory*."""
    routes, shelf = Blueprint("recordings", __name__), Shelf(directory)

    @routes.post("/recordings")
    def begin() -> tuple[Response, int]:
        begun = _in_thread(_begin, shelf, request.get_data())
        gevent.sleep(2 * LOOK_S)  # until then every front-end has seen it
        return jsonify(begun), 201

    @routes.get("/recordings/<name>/calls")
    def calls(name: str) -> Response:
        return jsonify(_in_thread(_calls, shelf, name, request.args.get("after", "{}")))

    @routes.post("/recordings/<name>/stop")
    def stop(name: str) -> Response:
        _in_thread(_stop, shelf, name)
        return jsonify(stopped=name)

    @routes.delete("/recordings/<name>")
    def remove(name: str) -> Response:
        _in_thread(_remove, shelf, name)
        return jsonify(removed=name)

    return routes


def _in_thread(function: Callable[..., Any], *arguments: Any) -> Any:
    """Read and write files in a thread: other requests are answered meanwhile."""
    return gevent.get_hub().threadpool.apply(function, arguments)


def _begin(shelf: Shelf, body: bytes) -> dict[str, Any]:
    try:
        order = msgspec.json.decode(body or b"{}", type=RecordingOrder)
    except msgspec.DecodeError as error:
        raise ClientError(str(error)) from error
    found = shelf.order()
    if found is not None and not found.has_ended:
        raise AlreadyRecording(f"it ends in {found.until_s - time():.0f} s")
    shelf.clear()
    order.id, order.until_s = os.urandom(6).hex(), time() + order.duration_s
    order.redact = [field.lower() for field in order.redact]
    shelf.ask(order)
    redacted = [*(f"*{part}*" for part in SECRETS), *order.redact]
    head = RecordingHead(servekit=__version__, time_s=time(), share=order.share, redacted=redacted)
    return {"id": order.id, "until_s": order.until_s, "head": line_of(head).decode()}


def _found(shelf: Shelf, name: str) -> RecordingOrder:
    order = shelf.order()
    if order is None or order.id != name:
        raise RecordingNotFound(f"no recording {name!r}")
    return order


def _calls(shelf: Shelf, name: str, after: str) -> dict[str, Any]:
    order = _found(shelf, name)
    try:
        places = msgspec.json.decode(after, type=dict[str, int])
        lines, places = shelf.read(order, places)
    except (msgspec.DecodeError, OSError, ValueError) as error:
        raise ClientError(f"after: {error}") from error
    is_recording = not order.has_ended and shelf.recorded_bytes() < order.max_bytes
    return {"lines": lines, "after": places, "is_recording": is_recording}


def _stop(shelf: Shelf, name: str) -> None:
    order = _found(shelf, name)
    order.until_s = min(order.until_s, time())
    shelf.ask(order)


def _remove(shelf: Shelf, name: str) -> None:
    _found(shelf, name)
    shelf.clear()
