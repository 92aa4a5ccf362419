# SPDX-License-Identifier: Apache-2.0
"""Swagger UI from an installed package; the browser needs nothing from elsewhere."""

from importlib.util import find_spec
from pathlib import Path
from typing import Final

from flask import Blueprint, Response, abort, redirect, request
from flask.typing import ResponseReturnValue

__all__ = ["create_blueprint"]

MEDIA_TYPES: Final = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".css": "text/css",
    ".png": "image/png",
}
OURS: Final = ("docs.js", "docs.css")
THEIRS: Final = ("swagger-ui-bundle.js", "swagger-ui.css", "favicon-32x32.png")
#: Only what this server serves may run, and it may talk to this server only. Swagger UI
#: writes style attributes, draws its icons from data URLs and shows pictures of responses as blobs.
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def create_blueprint() -> Blueprint:
    """Return the page and the files that it is made of."""
    static, swagger_ui = Path(__file__).with_name("static"), _swagger_ui()
    files = {name: static / name for name in OURS} | {name: swagger_ui / name for name in THEIRS}
    pages = Blueprint("docs", __name__)

    @pages.get("/docs")
    def page() -> Response:
        return _send(static / "docs.html")

    @pages.get("/docs/")
    def page_with_slash() -> ResponseReturnValue:
        return redirect("../docs", 308)  # the page's own links are relative to it

    @pages.get("/docs/<name>")
    def file(name: str) -> Response:
        return _send(files[name]) if name in files else abort(404)

    return pages


def _send(path: Path) -> Response:
    """Respond with a file, or with 304 to a browser that has it already."""
    response = Response(path.read_bytes(), mimetype=MEDIA_TYPES[path.suffix])
    response.headers["Cache-Control"] = "no-cache"
    response.headers["Content-Security-Policy"] = POLICY
    response.add_etag()
    response.make_conditional(request)
    return response


def _swagger_ui() -> Path:
    """Return the directory of Swagger UI in flask-swagger-ui, which itself is not imported."""
    package = find_spec("flask_swagger_ui")
    assert package is not None
    assert package.origin is not None
    return Path(package.origin).with_name("dist")
