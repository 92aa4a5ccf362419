# SPDX-License-Identifier: Apache-2.0
"""The scripts and styles of the pages. Their URLs name their content, so browsers keep them."""

from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Final

from flask import Blueprint, Response, abort, url_for

__all__ = ["MEDIA_TYPES", "add_assets", "asset_url"]

STATIC: Final = Path(__file__).with_name("static")
MEDIA_TYPES: Final = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
YEAR_S: Final = 31_536_000


def add_assets(blueprint: Blueprint) -> None:
    """Add ``static/NAME`` to *blueprint*."""

    def asset(name: str) -> Response:
        path = STATIC / name
        if "/" in name or path.suffix not in MEDIA_TYPES or not path.is_file():
            abort(404)
        response = Response(path.read_bytes(), mimetype=MEDIA_TYPES[path.suffix])
        response.headers["Cache-Control"] = f"public, max-age={YEAR_S}, immutable"
        return response

    blueprint.add_url_rule("/static/<name>", "asset", asset)
    blueprint.app_context_processor(lambda: {"asset_url": asset_url})


def asset_url(name: str) -> str:
    """Return the URL of a file, for templates: it changes with the content."""
    return url_for("console.asset", name=name, v=_digest(name))


@cache
def _digest(name: str) -> str:
    return sha256((STATIC / name).read_bytes()).hexdigest()[:12]
