# SPDX-License-Identifier: Apache-2.0
"""A page is a document: as HTML for people, and as JSON at the same path with ``.json``."""

from collections.abc import Callable
from typing import Any

import msgspec
from flask import Blueprint, Response, render_template, request
from flask.typing import ResponseReturnValue

from servekit.errors import RequestError, RouteNotFound

__all__ = ["add_page", "json_response", "no_page"]


def add_page(
    pages: Blueprint, rule: str, name: str, build: Callable[..., Any], twin: str = ""
) -> None:
    """Add the page *name* at *rule*, and its twin.

    :param build: returns the document; it gets the variables of *rule*. The template
        ``console/NAME.html`` gets the document as ``page``.
    :param twin: rule of the twin, if it is not *rule* with ``.json``.

    A browser is shown a ``RequestError`` of *build* as a page.
    """

    def page(**variables: str) -> ResponseReturnValue:
        try:
            document = build(**variables)
        except RequestError as error:
            if request.accept_mimetypes.best != "text/html":
                raise
            return render_template("console/refused.html", error=error), error.status
        return render_template(f"console/{name}.html", page=document)

    def as_json(**variables: str) -> Response:
        return json_response(build(**variables))

    pages.add_url_rule(twin or f"{rule}.json", f"{name}_json", as_json)
    pages.add_url_rule(rule, name, page)


def no_page(path: str) -> Any:
    """Build the page for a path that has none.

    :raises RouteNotFound: always.
    """
    raise RouteNotFound(f"the console has no page /console/{path}")


def json_response(document: Any) -> Response:
    """Return *document* as JSON."""
    return Response(msgspec.json.encode(document), mimetype="application/json")
