# SPDX-License-Identifier: Apache-2.0
"""The pages of the console, below ``/console/``. Runs in: front-end, each view in a greenlet."""

from typing import Any, Final

from flask import Blueprint, Response, current_app, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue
from msgspec import msgpack

from servekit.errors import Forbidden, Unauthorized
from servekit.extension import Server
from servekit_console.access import ConsoleAccess, cookie_of
from servekit_console.assets import add_assets
from servekit_console.collector import SAMPLES, Reader
from servekit_console.crashes import CrashPage
from servekit_console.live import LiveRates, add_stream
from servekit_console.model import ModelPages, add_model
from servekit_console.overview import OverviewPage
from servekit_console.pages import add_page, for_people, no_page
from servekit_console.playground import add_playground
from servekit_console.samples import take_samples
from servekit_console.slow import SlowPages
from servekit_console.units import FILTERS

__all__ = ["create_blueprint", "create_samples"]

#: pages load from this server alone, run only its scripts, and talk to nobody else
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; media-src blob: data:; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
)
OPEN: Final = {"console.asset", "console.login", "console.log_in"}  #: endpoints without a token
#: endpoints that show what clients send
INPUTS: Final = {
    f"console.{page}{twin}" for page in ("slow", "trace", "crashes") for twin in ("", "_json")
}
READING: Final = ("GET", "HEAD", "OPTIONS")
#: endpoints that are asked by POST and change nothing
HARMLESS: Final = {"console.snippets"}
NAVIGATION: Final = {
    "Overview": "/console/",
    "Slow requests": "/console/slow",
    "Crashes": "/console/crashes",
    "Playground": "/console/playground/",
}


def create_blueprint(server: Server) -> Blueprint:
    """Return the pages of *server*."""
    access = ConsoleAccess(server)
    pages = Blueprint(
        "console", __name__, url_prefix="/console", template_folder="templates", static_folder=None
    )
    guard(pages, access)
    add_assets(pages)
    add_login(pages, access)
    add_playground(pages, server)
    live, reader = LiveRates(server), Reader(server.run_directory)

    def may_see_secrets() -> bool:
        return access.may_change(request)

    def may_see_inputs() -> bool:
        return access.may_see_inputs(request)

    overview = OverviewPage(server, live, reader, may_see_inputs)
    add_page(pages, "/", "overview", overview.build, twin="/overview.json")
    add_stream(pages, server, live, overview)
    models = ModelPages(server, live, reader, access)
    add_page(pages, "/models/<name>", "model", models.build)
    add_model(pages, models)
    slow = SlowPages(server, reader, may_see_secrets)
    add_page(pages, "/slow", "slow", slow.build_list)
    add_page(pages, "/slow/<path:request_id>", "trace", slow.build_one)
    add_page(pages, "/crashes", "crashes", CrashPage(server, may_see_secrets).build)
    add_page(pages, "/<path:path>", "refused", no_page)
    for name, show in FILTERS.items():
        pages.add_app_template_filter(show, name)
    return pages


def create_samples(server: Server) -> Blueprint:
    """Return the route of management where the observer reads the counters."""
    pages = Blueprint("console-samples", __name__)

    def samples() -> Response:
        return Response(msgpack.encode(take_samples(server)), mimetype="application/msgpack")

    pages.add_url_rule(SAMPLES, "samples", samples)
    return pages


def guard(pages: Blueprint, access: ConsoleAccess) -> None:
    """Judge every request to *pages*, and restrict every response."""

    @for_people
    def judge() -> ResponseReturnValue | None:
        if request.endpoint in OPEN:
            return None
        is_reading = request.method in READING or request.endpoint in HARMLESS
        may_read = access.may_see_inputs if request.endpoint in INPUTS else access.may_read
        if not is_reading:
            access.check_change(request)
        elif not may_read(request):
            raise Unauthorized("a token for management is needed")
        return None

    def restrict(response: Response) -> Response:
        response.headers.setdefault("Content-Security-Policy", POLICY)
        response.headers.setdefault("Referrer-Policy", "same-origin")
        response.headers.setdefault("Cross-Origin-Opener-Policy", "same-origin")
        return response

    def common() -> dict[str, Any]:
        others = current_app.extensions.get("servekit.pages", {})
        return {
            "navigation": NAVIGATION | others,
            "may_change": access.may_change(request),
            "may_see_inputs": access.may_see_inputs(request),
        }

    pages.before_request(judge)
    pages.after_request(restrict)
    pages.context_processor(common)


def add_login(pages: Blueprint, access: ConsoleAccess) -> None:
    """Add the form that takes the token for management, and the end of its session."""

    def login() -> str:
        return render_template("console/login.html", next=_destination(), problem="")

    def log_in() -> ResponseReturnValue:
        response = redirect(_destination(), 303)
        refusal = access.log_in(request, response, request.form.get("token", "").strip())
        if refusal is None:
            return response
        is_foreign = isinstance(refusal, Forbidden)
        problem = "This token is for something else." if is_foreign else "This token is not known."
        page = render_template("console/login.html", next=_destination(), problem=problem)
        return page, refusal.status

    def log_out() -> ResponseReturnValue:
        response = redirect(url_for("console.overview"), 303)
        response.delete_cookie(cookie_of(request), path="/console/")
        return response

    pages.add_url_rule("/login", "login", login)
    pages.add_url_rule("/login", "log_in", log_in, methods=["POST"])
    pages.add_url_rule("/logout", "log_out", log_out, methods=["POST"])


def _destination() -> str:
    """Return the page that the login leads to: one of the console, whatever the form says."""
    wanted = request.values.get("next", "")
    is_ours = wanted.startswith("/console/") and "\\" not in wanted
    return wanted if is_ours else url_for("console.overview")
