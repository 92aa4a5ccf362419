# SPDX-License-Identifier: Apache-2.0
"""``/recordings`` of the management listener: one recording at a time."""

from __future__ import annotations

import os
from time import time
from typing import TYPE_CHECKING, Any, Final

import gevent
import msgspec
from flask import Blueprint, Response, jsonify, request

from servekit import __version__
from servekit.errors import ClientError
from servekit.extension import read_json
from servekit_record.call_copy import SECRETS
from servekit_record.errors import AlreadyRecording, RecordingNotFound
from servekit_record.order import FOLLOWED, OVER, RecordingOrder, Shelf
from servekit_record.recording import RecordingHead, line_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from servekit.extension import Server

__all__ = ["create_blueprint"]

FOLLOWED_S: Final = 20.0  #: for all front-ends to follow an order; one that starts may not
POLL_S: Final = 0.05


def create_blueprint(server: Server, directory: Path) -> Blueprint:
    """Return the routes of the recording of *server* in *directory*."""
    routes, shelf = Blueprint("recordings", __name__), Shelf(directory)

    @routes.post("/recordings")
    def begin() -> tuple[Response, int]:
        order = _order(request.get_data())
        if order.model and order.model not in server.models:
            raise ClientError(f"no model {order.model!r}; there are: {', '.join(server.models)}")
        begun = _in_thread(_begin, shelf, order)
        with gevent.Timeout(FOLLOWED_S, False):
            while shelf.marks(order, FOLLOWED) < server.settings.front_ends:
                gevent.sleep(POLL_S)
        return jsonify(begun), 201

    @routes.get("/recordings/<name>/calls")
    def calls(name: str) -> Response:
        after, front_ends = request.args.get("after", "{}"), server.settings.front_ends
        page = _in_thread(_calls, shelf, name, after, front_ends)
        return Response(page, mimetype="application/json")

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


def _order(body: bytes) -> RecordingOrder:
    try:
        return read_json(body or b"{}", RecordingOrder)
    except msgspec.DecodeError as error:
        raise ClientError(str(error)) from error


def _begin(shelf: Shelf, order: RecordingOrder) -> dict[str, Any]:
    found = shelf.order()
    if found is not None and not found.has_ended:
        left = f"for {found.until_s - time():.0f} s at most"
        hint = "if its command was killed, it ends within a minute"
        raise AlreadyRecording(f"another recording is running, {left}; {hint}")
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


def _calls(shelf: Shelf, name: str, after: str, front_ends: int) -> bytes:
    """Return a page of calls as JSON: it can be long, and is encoded in the thread."""
    order = _found(shelf, name)
    is_complete = shelf.marks(order, OVER) >= front_ends  # all of it is read below
    try:
        places = read_json(after, dict[str, int])
        lines, places = shelf.read(order, places)
    except (msgspec.DecodeError, OSError, ValueError) as error:
        raise ClientError(f"after: {error}") from error
    is_recording = not order.has_ended and shelf.recorded_bytes() < order.max_bytes
    found = {"lines": lines, "after": places, "is_recording": is_recording}
    found["is_complete"] = is_complete
    return msgspec.json.encode(found)


def _stop(shelf: Shelf, name: str) -> None:
    order = _found(shelf, name)
    order.until_s = min(order.until_s, time())
    shelf.ask(order)


def _remove(shelf: Shelf, name: str) -> None:
    _found(shelf, name)
    shelf.clear()
