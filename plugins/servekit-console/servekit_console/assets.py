# SPDX-License-Identifier: Apache-2.0
"""The scripts and styles of the pages. Their URLs change with their content, so browsers keep them.

A script finds those that it imports beside itself, so one digest of all files is part of each URL.
"""

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
    """Add ``static/VERSION/NAME`` to *blueprint*."""

    def asset(version: str, name: str) -> Response:
        path = STATIC / name
        if "/" in name or path.suffix not in MEDIA_TYPES or not path.is_file():
            abort(404)
        response = Response(path.read_bytes(), mimetype=MEDIA_TYPES[path.suffix])
        is_same = version == _version()  # a page of another release may ask for its own
        kept = f"public, max-age={YEAR_S}, immutable" if is_same else "no-cache"
        response.headers["Cache-Control"] = kept
        return response

    blueprint.add_url_rule("/static/<version>/<name>", "asset", asset)
    blueprint.app_context_processor(lambda: {"asset_url": asset_url})


def asset_url(name: str) -> str:
    """Return the URL of a file, for templates."""
    return url_for("console.asset", version=_version(), name=name)


@cache
def _version() -> str:
    content = b"".join(path.read_bytes() for path in sorted(STATIC.iterdir()))
    return sha256(content).hexdigest()[:12]
