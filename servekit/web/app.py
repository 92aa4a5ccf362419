# SPDX-License-Identifier: Apache-2.0
"""Builds the Flask app: what is added here is what the server answers besides predictions."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from flask import Blueprint, Flask, Response, jsonify, redirect, request
from flask.json.provider import DefaultJSONProvider
from flask.typing import ResponseReturnValue
from werkzeug.exceptions import MethodNotAllowed, NotFound
from werkzeug.routing import RequestRedirect, Rule

import servekit
from servekit.errors import PluginError, RouteNotFound
from servekit.extension.routes import Routes
from servekit.ipc.table import ModelRow
from servekit.web.descriptions import add_descriptions
from servekit.web.errors import add_error_pages, quoted
from servekit.web.health import add_health
from servekit.web.metrics import RouteMetrics
from servekit.web.predict import UNREAD, add_predict_errors
from servekit.web.view import ServerView

__all__ = ["add_routes", "bare_app", "create_app", "may_read_body", "with_links"]

PAGES: Final = "servekit.pages"  #: the key of ``app.extensions`` with all ``Routes.pages``
LINKS: Final = {
    "health": "/ping",
    "openapi": "/openapi.json",
    "swagger": "/api-description",
    "metrics": "/metrics",
}


def create_app(server: ServerView, metrics: RouteMetrics, routes: Sequence[Routes] = ()) -> Flask:
    """Return the WSGI application around *server* with the *routes* of plugins.

    :raises PluginError: a path, a name or a part of ``/openapi.json`` exists already.
    """
    app = bare_app("servekit.web")
    metrics.measure(app, "public")
    metrics.add_page(app)
    add_root(app, server, routes)
    add_health(app, server)
    add_descriptions(app, server, routes)
    add_predict_errors(app, server)
    guard_managed(app, server, routes)
    add_routes(app, routes)
    app.extensions[PAGES] = {name: path for each in routes for name, path in each.pages.items()}
    return app


def may_read_body(app: Flask, method: str, path: str) -> bool:
    """Whether *app* may read the body of such a request: it has a view that does not just refuse.

    :param path: decoded, without the query.
    """
    try:
        endpoint, _ = app.url_map.bind("").match(path, method)
    except (NotFound, MethodNotAllowed):
        return False
    except RequestRedirect:
        return True
    return endpoint not in UNREAD


def add_routes(app: Flask, routes: Iterable[Routes]) -> None:
    """Add the blueprints of plugins.

    :raises PluginError: one has a path or a name that exists already.
    """
    for each in routes:
        if each.blueprint is None:
            continue
        known = {rule.rule for rule in app.url_map.iter_rules()}
        try:
            app.register_blueprint(each.blueprint)
        except ValueError as error:
            raise PluginError(f"routes {each.blueprint.name}: {error}") from error
        added = [rule.rule for rule in app.url_map.iter_rules() if _is_of(rule, each.blueprint)]
        if taken := known.intersection(added):
            raise PluginError(f"routes {each.blueprint.name}: {min(taken)} exists already")


def guard_managed(app: Flask, server: ServerView, routes: Iterable[Routes]) -> None:
    """Refuse requests to the managed paths of *routes* without the token for management."""
    managed = tuple(path for each in routes for path in each.managed)
    if not managed:
        return

    def check() -> None:
        if request.path.startswith(managed):
            given = request.headers.get("Authorization")
            refusal = server.judge_manager(given.encode("latin-1") if given else None)
            if refusal is not None:
                raise refusal

    app.before_request(check)


def with_links(links: Mapping[str, str], routes: Iterable[Routes]) -> dict[str, str]:
    """Return *links*, and those to the pages of plugins."""
    return dict(links) | {name: path for each in routes for name, path in each.links.items()}


def _is_of(rule: Rule, blueprint: Blueprint) -> bool:
    return str(rule.endpoint).startswith(f"{blueprint.name}.")


def bare_app(name: str) -> Flask:
    """Return an app without routes, whose errors are problem details."""
    app = Flask(name, static_folder=None, template_folder=None)
    app.url_map.merge_slashes = False
    assert isinstance(app.json, DefaultJSONProvider)
    app.json.sort_keys = False
    app.json.compact = True
    app.before_request(refuse_double_slash)
    app.after_request(harden)
    add_error_pages(app)
    return app


def refuse_double_slash() -> None:
    """Werkzeug takes ``//ping`` for ``/ping``; the router of predictions does not."""
    path = request.environ["PATH_INFO"]
    if path.startswith("//"):
        raise RouteNotFound(f"no route has the path {quoted(path)}")


def harden(response: Response) -> Response:
    """Keep caches and guessing browsers away from answers that say nothing about it."""
    if not response.is_streamed and response.calculate_content_length() == 0:  # for OPTIONS
        response.headers.pop("Content-Type", None)
    response.headers.setdefault("Cache-Control", "no-store")
    response.headers.setdefault("X-Content-Type-Options", "nosniff")
    return response


def add_root(app: Flask, server: ServerView, routes: Sequence[Routes]) -> None:
    """Add ``/``: name, version and links; browsers are sent to the page of a plugin.

    :raises PluginError: two plugins have such a page.
    """
    links, home = with_links(LINKS, routes), home_of(routes)

    def root() -> ResponseReturnValue:
        if home and prefers_page():
            response = redirect(home, 303)
        else:
            models = {row.name: _path(row) for row in server.routing.table.models}
            version = servekit.__version__
            response = jsonify(name="servekit", version=version, links=links, models=models)
        response.headers["Vary"] = "Accept"
        return response

    app.add_url_rule("/", "root", root)


def home_of(routes: Iterable[Routes]) -> str:
    """Return the page for browsers, or "".

    :raises PluginError: there are two.
    """
    homes = sorted({each.home for each in routes if each.home})
    if len(homes) > 1:
        raise PluginError(f"register_routes: browsers cannot be sent to both {' and '.join(homes)}")
    return homes[0] if homes else ""


def prefers_page() -> bool:
    """Whether the client would rather have HTML than JSON, as browsers do."""
    accepted = request.accept_mimetypes
    return accepted.best_match(["application/json", "text/html"]) == "text/html"


def _path(row: ModelRow) -> str:
    """Return where a model answers: a model of stages may have no ``/predict``."""
    own = f"/{row.name}/predict"
    paths = [route.path for route in row.routes]
    return own if own in paths or not row.stages else min(paths, default=own)
