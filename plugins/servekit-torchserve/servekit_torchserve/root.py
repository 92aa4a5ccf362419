# SPDX-License-Identifier: Apache-2.0
"""``OPTIONS /``, where TorchServe describes its API as at ``/api-description``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flask import Blueprint, Response, request

from servekit_torchserve.description import describe_server
from servekit_torchserve.responses import JSON, json_body
from servekit_torchserve.served_models import ServedModels

if TYPE_CHECKING:
    from servekit.extension import Server

__all__ = ["create_root"]


def create_root(server: Server) -> Blueprint:
    """Return a blueprint that describes *server*, if all of its models are TorchServe's."""
    pages, served = Blueprint("torchserve_root", __name__), ServedModels(server)

    @pages.before_app_request  # the path is servekit's own, and stays so for other methods
    def describe() -> Response | None:
        if request.method != "OPTIONS" or request.path != "/" or not served.are_all():
            return None
        return Response(json_body(describe_server(server.models)), content_type=JSON)

    return pages
