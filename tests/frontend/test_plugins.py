# SPDX-License-Identifier: Apache-2.0
"""What plugins add to a front-end, and what their mistakes cost."""

import dataclasses
import json
import os
import socket
from functools import partial
from textwrap import dedent
from types import SimpleNamespace

import pytest

from servekit.errors import PluginError
from servekit.extension import BaseExchange, HttpRequest
from servekit.frontend.middleware.contained import ContainedMiddleware
from servekit.frontend.server.contributions import check_settings
from servekit.ipc.batches import Slab
from servekit.ipc.counters import Counters, create_memory
from servekit.plugins import create_plugin_manager
from servekit.settings import Settings
from tests.fork_server import fork_server
from tests.waiting import wait_until

from .conftest import WAIT_S, FrontEndUnderTest, post, receive

PLUGIN = """
    from functools import partial

    from servekit import hookimpl
    from servekit.errors import Forbidden
    from servekit.extension import HttpResponse, InThread


    def middleware(exchange, request, proceed):
        way = request.headers.get(b"x-way", b"").decode()
        if way == "respond":
            exchange.respond(HttpResponse(201, b"mine", "text/plain", request.request_id))
        elif way == "refuse":
            exchange.fail(Forbidden("not you"), request.request_id)
        elif way == "mark":
            request.refusal = Forbidden("marked")
            proceed(exchange, request)
        elif way == "read":
            size = str(len(request.content))
            exchange.add_filter(lambda response: with_field(response, size))
            proceed(exchange, request)
        elif way == "thread":
            in_thread = lambda response: InThread(lambda: "t", partial(with_field, response))
            exchange.add_filter(in_thread)
            proceed(exchange, request)
        elif way == "raise":
            raise RuntimeError("secret")
        elif way == "raise late":
            proceed(exchange, request)
            raise RuntimeError("secret")
        elif way == "respond and raise":
            exchange.respond(HttpResponse(201, b"mine"))
            raise RuntimeError("secret")
        elif way == "twice":
            proceed(exchange, request)
            proceed(exchange, request)
        elif way == "filter raises":
            exchange.add_filter(broken)
            proceed(exchange, request)
        elif way == "field in Japanese":
            exchange.add_filter(lambda response: with_field(response, "\u65e5\u672c"))
            proceed(exchange, request)
        elif way == "status in words":
            exchange.add_filter(in_words)
            proceed(exchange, request)
        elif way == "filter returns nothing":
            exchange.add_filter(lambda response: None)
            proceed(exchange, request)
        elif way == "observer raises":
            exchange.add_observer(broken)
            proceed(exchange, request)
        elif way == "thread raises":
            exchange.add_filter(lambda response: InThread(lambda: 1 / 0, None))
            proceed(exchange, request)
        else:
            proceed(exchange, request)


    def with_field(response, text):
        response.fields = [*response.fields, ("X-Mine", text)]
        return response


    def in_words(response):
        response.status = "fine"
        return response


    def broken(*arguments):
        raise RuntimeError("secret")


    @hookimpl
    def register_middleware(server):
        return [middleware]
"""
LARGE = b"x" * 100_000


@pytest.fixture(scope="module")
def front(tmp_path_factory):
    """One front-end with a plugin called ``mine``."""
    directory = tmp_path_factory.mktemp("run")
    with pytest.MonkeyPatch.context() as patches:
        patches.setenv("PYTHONPATH", install(tmp_path_factory.mktemp("site"), PLUGIN))
        front_end = FrontEndUnderTest(directory, arena=4 * len(LARGE), compression=("gzip",))
    yield front_end
    assert front_end.stop() == 0


def install(site, source):
    """Make *site* a directory with an installed plugin; return its path."""
    (site / "mine.py").write_text(dedent(source))
    (site / "mine-1.0.dist-info").mkdir()
    (site / "mine-1.0.dist-info" / "METADATA").write_text("Name: mine\nVersion: 1.0\n")
    (site / "mine-1.0.dist-info" / "entry_points.txt").write_text("[servekit]\nmine = mine\n")
    return str(site)


def ask(front_end, way, body=b"[1]", *headers):
    with front_end.connect() as sock:
        sock.sendall(post(body, f"X-Way: {way}", *headers))
        return receive(sock)


WAYS = {
    "pass": (200, b"[1]"),
    "respond": (201, b"mine"),
    "refuse": (403, b"not you"),
    "mark": (403, b"marked"),
    "read": (200, b"[1]"),
    "thread": (200, b"[1]"),
    "raise": (500, b"Internal error"),
    "raise late": (200, b"[1]"),
    "respond and raise": (201, b"mine"),
    "twice": (200, b"[1]"),
    "filter raises": (500, b"Internal error"),
    "filter returns nothing": (500, b"Internal error"),
    "field in Japanese": (500, b"Internal error"),
    "status in words": (500, b"Internal error"),
    "observer raises": (200, b"[1]"),
    "thread raises": (500, b"Internal error"),
}


@pytest.mark.parametrize("way", WAYS)
def test_each_request_has_one_response_and_the_connection_goes_on(front, way):
    status, content = WAYS[way]
    with front.connect() as sock:
        sock.sendall(post(b"[1]", f"X-Way: {way}", "X-Request-Id: r1") + post(b"[2]"))
        response, following = receive(sock), receive(sock)

    assert response[0] == status
    assert content in response[2]
    assert b"secret" not in response[2]
    assert following[::2] == (200, b"[2]")


@pytest.mark.parametrize(
    ("way", "text"),
    [
        ("raise", "plugin mine: the middleware failed, request r7"),
        ("raise late", "plugin mine: the middleware failed, request r7"),
        ("respond and raise", "plugin mine: the middleware failed, request r7"),
        ("twice", "RuntimeError: a request was passed on twice, or after the response"),
        ("filter raises", "filter mine.broken failed, request r7"),
        ("filter returns nothing", "TypeError: a filter returned NoneType"),
        ("field in Japanese", "request r7: its response cannot be sent"),
        ("thread raises", "filter mine.middleware.<locals>.<lambda> failed, request r7"),
        ("observer raises", "observer mine.broken failed"),
    ],
)
def test_the_log_names_the_plugin_that_failed(front, way, text):
    before = len(front.log.read_text())
    ask(front, way, b"[1]", "X-Request-Id: r7")

    wait_until(lambda: text in front.log.read_text()[before:], text)


@pytest.mark.parametrize("way", ["respond", "refuse", "mark", "raise"])
def test_large_bodies_that_reach_no_worker_are_freed(front, way):
    for _ in range(8):  # twice as many as there is room for
        with front.connect() as sock:
            sock.sendall(post(LARGE, f"X-Way: {way}"))
            receive(sock)

    assert ask(front, "pass", LARGE)[::2] == (200, LARGE)


def test_the_body_can_be_read_wherever_it_lies(front):
    assert ask(front, "read")[1]["x-mine"] == "3"
    assert ask(front, "read", LARGE)[1]["x-mine"] == str(len(LARGE))


def test_work_in_a_thread_changes_the_response_before_it_is_compressed(front):
    _, headers, _ = ask(front, "thread", LARGE, "Accept-Encoding: gzip")

    assert (headers["x-mine"], headers["content-encoding"]) == ("t", "gzip")


def test_a_body_whose_client_leaves_while_middleware_has_it_is_freed():
    freed, passed, held = [], [], []
    route = SimpleNamespace(bodies=SimpleNamespace(free=freed.append))
    slab, exchange = Slab(0, 9), BaseExchange(None)
    request = HttpRequest(b"POST", b"/", {}, slab, True, "1.1", route=route)
    hold = lambda exchange, request, proceed: held.append(partial(proceed, exchange, request))  # noqa: E731
    ContainedMiddleware("mine", hold)(exchange, request, lambda *_: passed.append(1))
    exchange.is_closed = True
    exchange.observe_end(None, 0)
    held[0]()  # the middleware proceeds all the same

    assert (freed, passed) == ([slab], [])


# ---------------------------------------------------------------- plugins that end the start

ROUTES = """
    from flask import Blueprint
    from servekit import hookimpl
    from servekit.extension import Routes

    pages = Blueprint("mine", __name__)
    pages.add_url_rule({rule!r}, "page", lambda: "page")

    @hookimpl
    def register_routes(server):
        return {result}
"""
MISTAKES = {
    "path": (ROUTES.format(rule="/ping", result="[Routes(blueprint=pages)]"),
             "routes mine: /ping exists already"),
    "document": (ROUTES.format(rule="/x", result="[Routes(openapi={'openapi': '2'})]"),
                 "openapi: /openapi is defined twice"),
    "exception": (ROUTES.format(rule="/x", result="1 / 0"),
                  "mine: register_routes: division by zero"),
    "kind": (ROUTES.format(rule="/x", result="['page']"),
             "mine: register_routes: expected Routes, got 'page'"),
    "no list": (ROUTES.format(rule="/x", result="5"),
                "mine: register_routes: 'int' object is not iterable"),
}  # fmt: skip


def run_front_end(directory, **settings):
    """Return the exit status and the last line of a front-end that cannot start."""
    text = json.dumps(dataclasses.asdict(Settings(**settings)))
    (directory / "settings.json").write_text(text)
    counters = Counters(create_memory())
    with socket.socket(socket.AF_UNIX) as control, socket.create_server(("127.0.0.1", 0)) as http:
        control.bind(str(directory / "control.sock"))
        control.listen()
        descriptors = {"--listener": http, "--counters": counters.descriptor}
        with (directory / "log").open("wb") as log:
            server = fork_server("servekit.frontend")
            process = server.start(["--run-dir", str(directory)], descriptors, log)
        status = process.wait(WAIT_S)
    os.close(counters.descriptor)
    return status, (directory / "log").read_text().splitlines()[-1]


@pytest.mark.parametrize(("source", "text"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_in_a_hook_ends_the_start_with_its_reason(tmp_path, monkeypatch, source, text):
    (tmp_path / "site").mkdir()
    monkeypatch.setenv("PYTHONPATH", install(tmp_path / "site", source))

    assert run_front_end(tmp_path) == (os.EX_CONFIG, text)


def test_jobs_without_their_plugin_end_the_start():
    plugins = create_plugin_manager(discover=False)
    check_settings(Settings(), plugins)

    with pytest.raises(PluginError, match=r"jobs: needs .*: pip install servekit-jobs"):
        check_settings(Settings(jobs=1), plugins)


@pytest.mark.parametrize(
    ("is_on", "said"),
    [
        (True, ["http2 is on, but servekit-http2 is missing: clients get HTTP/1.1 only"]),
        (False, []),
    ],
)
def test_http2_is_not_off_silently(caplog, is_on, said):
    check_settings(Settings(http2=is_on), create_plugin_manager(discover=False))

    assert [record.getMessage() for record in caplog.records] == said
