# SPDX-License-Identifier: Apache-2.0
"""``/docs``: Swagger UI from an installed package; a browser needs nothing from elsewhere."""

from importlib.util import find_spec
from pathlib import Path
from typing import Final

from flask import Flask, Response, abort, redirect, request
from flask.typing import ResponseReturnValue

__all__ = ["add_docs"]

MEDIA_TYPES: Final = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".css": "text/css",
    ".png": "image/png",
}
OURS: Final = ("docs.js", "docs.css")
THEIRS: Final = ("swagger-ui-bundle.js", "swagger-ui.css", "favicon-32x32.png")
#: Only what this server serves may run, and it may talk to this server only. Swagger UI
#: writes style attributes and draws its icons from data URLs.
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def add_docs(app: Flask) -> None:
    """Add the page, and the files it is made of."""
    static, swagger_ui = Path(__file__).with_name("static"), _swagger_ui()
    files = {name: static / name for name in OURS} | {name: swagger_ui / name for name in THEIRS}

    def docs() -> Response:
        return _send(static / "docs.html")

    def docs_slash() -> ResponseReturnValue:
        return redirect("../docs", 308)  # the page's own links are relative to it

    def docs_file(name: str) -> Response:
        return _send(files[name]) if name in files else abort(404)

    app.add_url_rule("/docs", "docs", docs)
    app.add_url_rule("/docs/", "docs_slash", docs_slash)
    app.add_url_rule("/docs/<name>", "docs_file", docs_file)


def _send(path: Path) -> Response:
    """Answer with a file, or with 304 to a browser that has it already."""
    answer = Response(path.read_bytes(), mimetype=MEDIA_TYPES[path.suffix])
    answer.headers["Cache-Control"] = "no-cache"
    answer.headers["Content-Security-Policy"] = POLICY
    answer.add_etag()
    answer.make_conditional(request)
    return answer


def _swagger_ui() -> Path:
    """Return where flask-swagger-ui keeps Swagger UI; the package itself is not imported."""
    package = find_spec("flask_swagger_ui")
    assert package is not None
    assert package.origin is not None
    return Path(package.origin).with_name("dist")
