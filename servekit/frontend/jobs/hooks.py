# SPDX-License-Identifier: Apache-2.0
"""The hooks of jobs: the middleware that makes and answers them, and their description."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from servekit.hookspecs import hookimpl

if TYPE_CHECKING:
    from servekit.extension import Middleware, Routes, Server

__all__ = ["register_middleware", "register_routes"]


@hookimpl
def register_middleware(server: Server) -> list[Middleware]:
    """Make jobs of predictions whose clients prefer that."""
    from servekit.frontend.jobs.handler import Jobs

    return [Jobs(server)] if server.settings.jobs else []


@hookimpl
def register_routes(server: Server) -> list[Routes]:
    """Describe jobs, and protect them as predictions are."""
    from servekit.extension import Routes
    from servekit.frontend.jobs.description import jobs_fragment
    from servekit.frontend.jobs.handler import model_of

    if not server.settings.jobs:
        return []
    return [Routes(openapi=jobs_fragment, protected={"/jobs/": partial(model_of, server)})]
