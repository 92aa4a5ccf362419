# SPDX-License-Identifier: Apache-2.0
"""``GET /jobs`` of the management listener: the jobs of all front-ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import gevent
from flask import Blueprint, Response, jsonify

from servekit_jobs.responses import state_of
from servekit_jobs.store import read_jobs

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["create_blueprint"]


def create_blueprint(directory: Path) -> Blueprint:
    """Return the route that lists the jobs of *directory*."""
    routes = Blueprint("jobs", __name__)

    @routes.get("/jobs")
    def jobs() -> Response:
        # in a thread, since there may be thousands of files
        found = gevent.get_hub().threadpool.apply(read_jobs, (directory,))
        return jsonify(jobs=[state_of(name, job) for name, job in found.items()])

    return routes
