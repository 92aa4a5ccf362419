# SPDX-License-Identifier: Apache-2.0
"""A page is a document: as HTML for people, and as JSON at the same path with ``.json``."""

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar
from urllib.parse import urlsplit

import msgspec
from flask import Blueprint, Response, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue

from servekit.errors import RequestError, RouteNotFound, Unauthorized

__all__ = ["add_page", "for_people", "json_response", "no_page"]

Given = ParamSpec("Given")
Result = TypeVar("Result")


def add_page(
    pages: Blueprint, rule: str, name: str, build: Callable[..., Any], twin: str = ""
) -> None:
    """Add the page *name* at *rule*, and its twin.

    :param build: returns the document; it gets the variables of *rule*. The template
        ``console/NAME.html`` gets the document as ``page``.
    :param twin: rule of the twin, if it is not *rule* with ``.json``.
    """

    @for_people
    def page(**variables: str) -> ResponseReturnValue:
        return render_template(f"console/{name}.html", page=build(**variables))

    def as_json(**variables: str) -> Response:
        return json_response(build(**variables))

    pages.add_url_rule(twin or f"{rule}.json", f"{name}_json", as_json)
    pages.add_url_rule(rule, name, page)


def for_people(
    view: Callable[Given, Result],
) -> Callable[Given, Result | ResponseReturnValue]:
    """Show a ``RequestError`` of *view* as a page in a browser.

    Who needs a token is led to the form for it, and from there back. Programs get JSON.
    """

    @wraps(view)
    def wrapped(*args: Given.args, **kwargs: Given.kwargs) -> Result | ResponseReturnValue:
        try:
            return view(*args, **kwargs)
        except RequestError as error:
            accepted = request.accept_mimetypes
            if accepted["text/html"] <= accepted["application/json"]:
                raise
            if isinstance(error, Unauthorized):
                return redirect(url_for("console.login", next=_page()), 303)
            return render_template("console/refused.html", error=error, back=_page()), error.status

    return wrapped


def _page() -> str:
    """Return the path of the page that the request is for, or of the one with its form."""
    if request.method == "GET":
        return request.full_path.removesuffix("?")
    path = urlsplit(request.referrer or "").path
    return path if path.startswith("/console/") else url_for("console.overview")


def no_page(path: str) -> Any:
    """Build the page for a path that has none.

    :raises RouteNotFound: always.
    """
    raise RouteNotFound(f"the console has no page /console/{path}")


def json_response(document: Any) -> Response:
    """Return *document* as JSON."""
    return Response(msgspec.json.encode(document), mimetype="application/json")
