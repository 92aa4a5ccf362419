# SPDX-License-Identifier: Apache-2.0
"""In front-ends: the path that says whether a token may manage."""

from __future__ import annotations

from flask import Blueprint, Response

from servekit_torchserve.management.access import JUDGE_PATH

__all__ = ["create_blueprint"]


def create_blueprint() -> Blueprint:
    """Return the path; it is managed, so the server refuses requests without the token."""
    pages = Blueprint("torchserve", __name__)
    pages.add_url_rule(JUDGE_PATH, "may_manage", lambda: Response(status=204))
    return pages
