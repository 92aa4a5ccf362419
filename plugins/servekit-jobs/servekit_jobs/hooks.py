# SPDX-License-Identifier: Apache-2.0
"""The hooks: middleware that makes and serves jobs, and the description of jobs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from servekit import hookimpl

if TYPE_CHECKING:
    from servekit.extension import Middleware, Routes, Server

__all__ = ["register_middleware", "register_routes"]


@hookimpl
def register_middleware(server: Server) -> list[Middleware]:
    """Make jobs of predictions whose clients prefer that, if ``jobs`` is set."""
    from servekit_jobs.middleware import Jobs

    return [Jobs(server)] if server.settings.jobs else []


@hookimpl
def register_routes(server: Server) -> list[Routes]:
    """Describe jobs, protect them as predictions are, and list them for operators."""
    from servekit.extension import Routes
    from servekit_jobs.description import jobs_fragment
    from servekit_jobs.management import create_blueprint
    from servekit_jobs.middleware import directory_of, model_of

    if not server.settings.jobs:
        return []
    blueprint = create_blueprint(directory_of(server))
    return [
        Routes(openapi=jobs_fragment, protected={"/jobs/": partial(model_of, server)}),
        Routes(blueprint=blueprint, listener="management", links={"jobs": "/jobs"}),
    ]
