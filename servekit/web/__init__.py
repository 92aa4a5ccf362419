# SPDX-License-Identifier: Apache-2.0
"""The Flask app: every route that is not a prediction. Runs in: front-end."""

from servekit.web.app import create_app, may_read_body
from servekit.web.management import ManagedView, create_management
from servekit.web.metrics import RouteMetrics
from servekit.web.view import ServerView

__all__ = [
    "ManagedView",
    "RouteMetrics",
    "ServerView",
    "create_app",
    "create_management",
    "may_read_body",
]
