# SPDX-License-Identifier: Apache-2.0
"""``GET /``, where clients of KServe's V1 protocol ask whether the server is alive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from flask import Blueprint, Response, request

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["create_root"]

ALIVE: Final[Mapping[str, str]] = {"status": "alive"}


def create_root() -> Blueprint:
    """Return a blueprint that adds the status to what servekit says at ``/``."""
    pages = Blueprint("kserve_v1_root", __name__)

    @pages.after_app_request  # the path is servekit's own; browsers are redirected there
    def add_status(response: Response) -> Response:
        is_asked = request.path == "/" and request.method in ("GET", "HEAD")
        if is_asked and response.status_code == 200 and response.is_json:
            response.set_data(msgspec.json.encode({**response.get_json(), **ALIVE}))
        return response

    return pages
