# SPDX-License-Identifier: Apache-2.0
"""Who answers at the paths of protocols: models first, then the longest path that fits."""

import logging
from types import SimpleNamespace

import pytest

from servekit.errors import (
    BodyMalformed,
    Forbidden,
    ModelNotFound,
    NotReady,
    PluginError,
    RouteNotFound,
    ServekitError,
    Unauthorized,
)
from servekit.extension import (
    BaseExchange,
    HttpRequest,
    HttpResponse,
    Identity,
    PredictionCall,
    Protocol,
)
from servekit.frontend.routing.protocol_routes import ProtocolRoute
from servekit.frontend.routing.protocols import Protocols
from servekit.frontend.routing.router import Router
from servekit.frontend.server.contributions import gather
from servekit.hookspecs import hookimpl
from servekit.ipc.batches import Slab
from servekit.ipc.table import ModelRow
from servekit.plugins import create_plugin_manager
from servekit.settings import Settings

HEADERS = {b"host": b"a"}


class Bodies:
    """Stands for an arena."""

    def __init__(self):
        self.slabs = {}

    def content(self, slab):
        return memoryview(self.slabs[slab])

    def lay(self, pieces):
        body = b"".join(pieces)
        if len(body) < 10:
            return body
        slab = Slab(len(self.slabs), len(body))
        self.slabs[slab] = body
        return slab

    def free(self, slab):
        del self.slabs[slab]


class Route:
    """Stands for a batcher."""

    middleware = None

    def __init__(self, name, version="1"):
        self.row, self.begun = ModelRow(name, version, "", [], 1, 0.0, 1.0, 1), []
        self.version = version.encode()
        self.bodies, self.statuses = Bodies(), []
        self.metrics = SimpleNamespace(count_status=self.statuses.append)

    def begin(self, exchange, request, call=None):
        self.begun.append((exchange, request, call))


class Told(BaseExchange):
    """Keeps the response."""

    def send(self, response):
        self.response = response


class Scripted(Protocol):
    """Returns what it was made with, and notes what it was asked."""

    envelope = "package.module:Class"

    def __init__(self, *paths, found=None, model="", is_selective=False):
        self.paths, self.found, self.asked, self.model = paths, found, [], model
        self.is_selective = is_selective

    def find(self, head):
        self.asked.append(head)
        if isinstance(self.found, Exception) and not isinstance(self.found, ServekitError):
            raise self.found
        return self.found

    def find_model(self, body):
        if isinstance(self.model, Exception):
            raise self.model
        return self.model

    def error_response(self, error, request_id):
        return HttpResponse(error.status, repr(error).encode())


MODEL, ENDPOINT, OTHER = Route("m"), Route("m"), Route("o")


def table(*protocols, judge=None):
    router = Router()
    router.replace(
        {b"/m/predict": MODEL, b"/v1/m": MODEL},
        {
            **{("m", version, ""): MODEL for version in ("", "1")},
            **{("m", version, "e"): ENDPOINT for version in ("", "1")},
            ("o", "", ""): OTHER,
        },
    )
    found = Protocols(protocols, router, judge)
    router.find_other = found.find
    return router, found


def request(target, method=b"POST"):
    return HttpRequest(method, target, HEADERS, b"", True, "1.1", request_id="r")


def response_of(protocols, target, method=b"POST"):
    """Return the response to a request, or ``None`` if it is not for a protocol."""
    exchange = Told(None)
    is_answered = protocols.respond(exchange, request(target, method))
    return exchange.response if is_answered else None


@pytest.mark.parametrize(
    ("method", "target", "is_asked"),
    [
        pytest.param(b"POST", b"/v1/x", True, id="below a path"),
        pytest.param(b"GET", b"/v1/x?y=1", True, id="any method, with a query"),
        pytest.param(b"POST", b"/v%31/x", True, id="encoded"),
        pytest.param(b"POST", b"/v2", True, id="the path itself"),
        pytest.param(b"POST", b"/v1", False, id="the path above"),
        pytest.param(b"POST", b"/v2/x", False, id="below what has no slash at its end"),
        pytest.param(b"POST", b"/v1/m", False, id="a route of a model"),
        pytest.param(b"GET", b"/v1/m", False, id="a route of a model, with another method"),
        pytest.param(b"POST", b"/v1/%6d?x", False, id="a route of a model, encoded"),
        pytest.param(b"POST", b"/other", False, id="another path"),
    ],
)
def test_a_protocol_is_asked_about_its_paths_alone(method, target, is_asked):
    protocol = Scripted("/v1/", "/v2", found=PredictionCall(model="m"))
    router, _ = table(protocol)
    found = router.find(method, target, HEADERS)

    assert isinstance(found, ProtocolRoute) is bool(protocol.asked) is is_asked


def test_it_sees_the_decoded_path_the_query_and_the_headers():
    protocol = Scripted("/v1/", found=PredictionCall(model="m"))
    table(protocol)[0].find(b"PUT", b"/v1/%41%2Fb?c=%64", HEADERS)
    (head,) = protocol.asked

    assert (head.method, head.path, head.query) == (b"PUT", b"/v1/A%2Fb", b"c=%64")
    assert head.headers is HEADERS


def test_a_prediction_begins_with_its_call_and_the_shape_of_its_errors():
    call = PredictionCall(model="m", parameters={"a": "b"}, is_stream=True)
    protocol = Scripted("/v1/", found=call)
    route = table(protocol)[0].find(b"POST", b"/v1/x", HEADERS)
    exchange, asked = Told(None), request(b"/v1/x")
    route.begin(exchange, asked)
    (begun,) = MODEL.begun

    assert begun == (exchange, asked, route.call)
    assert (route.call.envelope, route.call.is_stream) == ("package.module:Class", True)
    exchange.fail(NotReady(), "r")
    assert exchange.response.body == b"NotReady()"
    assert isinstance(exchange.response.error, NotReady)
    MODEL.begun.clear()


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        pytest.param(PredictionCall(model="x"), ModelNotFound, id="no such model"),
        pytest.param(PredictionCall(model="m", version="2"), ModelNotFound, id="no such version"),
        pytest.param(PredictionCall(model="m", endpoint="f"), RouteNotFound, id="no such endpoint"),
        pytest.param(PredictionCall(model="x", endpoint="e"), ModelNotFound, id="of no such model"),
        pytest.param(Unauthorized("who"), Unauthorized, id="an error of its own"),
        pytest.param(RuntimeError("bug"), ServekitError, id="a bug"),
        pytest.param("nonsense", ServekitError, id="what it may not return"),
    ],
)
def test_errors_have_the_shape_of_the_protocol(call, kind, caplog):
    caplog.set_level(logging.CRITICAL)
    router, protocols = table(Scripted("/v1/", found=call))
    response = response_of(protocols, b"/v1/x")

    assert router.find(b"POST", b"/v1/x", HEADERS) is None
    assert type(response.error) is kind
    assert response.body.startswith(kind.__name__.encode())


def test_a_call_that_is_repeated_leads_where_the_table_says():
    protocol = Scripted("/p/", found=PredictionCall(model="m"))
    protocol.call_headers = ()
    router, protocols = table(protocol)

    def asked(target=b"/p/a"):
        return protocols.find(b"POST", target, HEADERS)

    first, again = asked(), asked()
    router.replace({}, {("m", "", ""): OTHER})
    other = asked()
    router.replace({b"/p/a": MODEL}, {("m", "", ""): OTHER})

    assert (first is again, first.row is MODEL.row, other.row is OTHER.row) == (True, True, True)
    assert asked() is None  # a model answers at that path now
    assert asked(b"/p/b").row is OTHER.row


def test_calls_are_kept_for_the_headers_that_decide():
    protocol = Scripted("/p/", found=PredictionCall(model="m"))
    protocol.call_headers = (b"a", b"b")
    router, _ = table(protocol)

    def asked(method=b"POST", target=b"/p/x", **headers):
        before = len(protocol.asked)
        fields = {name.encode(): value for name, value in headers.items()}
        assert isinstance(router.find(method, target, HEADERS | fields), ProtocolRoute)
        return len(protocol.asked) - before

    assert [asked(), asked(), asked(c=b"1")] == [1, 0, 0]
    assert [asked(a=b"1"), asked(b=b"1"), asked(a=b"1"), asked()] == [1, 1, 0, 0]
    assert [asked(b"PUT"), asked(b"PUT")] == [1, 1]
    assert [asked(target=b"/p/x?q"), asked(target=b"/p/x?q")] == [1, 1]
    assert sum(asked(a=b"%d" % each) for each in [*range(500), *range(500)]) > 900


def test_calls_are_kept_behind_a_selective_protocol_until_models_change():
    every = Scripted("/p", found=PredictionCall(model="m"))
    some = Scripted("/p", found=None, is_selective=True)
    every.call_headers = ()
    router, _ = table(every, some)

    assert [router.find(b"POST", b"/p", HEADERS).row for _ in "ab"] == [MODEL.row] * 2
    assert len(some.asked) == len(every.asked) == 1
    some.found = PredictionCall(model="o")
    router.replace({}, {("o", "", ""): OTHER})
    assert [router.find(b"POST", b"/p", HEADERS).row for _ in "ab"] == [OTHER.row] * 2
    assert len(some.asked) == 3


def test_a_version_that_is_served_and_an_endpoint_are_found():
    router, _ = table(Scripted("/v1/", found=PredictionCall(model="m", version="1", endpoint="e")))
    router.find(b"POST", b"/v1/x", HEADERS).begin(Told(None), request(b"/v1/x"))

    assert len(ENDPOINT.begun) == 1


def test_a_response_of_its_own_gets_the_request_id():
    _, protocols = table(Scripted("/v1/", found=HttpResponse(200, b"fine")))
    response = response_of(protocols, b"/v1/x", b"GET")

    assert (response.status, response.body, response.request_id) == (200, b"fine", "r")


def test_the_longest_path_is_asked_first_and_passes_on_by_none():
    short = Scripted("/v1/", found=HttpResponse(200, b"short"))
    long = Scripted("/v1/long/", found=HttpResponse(200, b"long"))
    silent = Scripted("/v1/long/silent/", "/v1/exactly")
    _, protocols = table(short, long, silent)
    bodies = {
        target: response_of(protocols, target).body
        for target in (b"/v1/x", b"/v1/long/x", b"/v1/long/silent/x", b"/v1/exactly")
    }

    assert list(bodies.values()) == [b"short", b"long", b"long", b"short"]
    assert len(silent.asked) == 2


@pytest.mark.parametrize("path", ["/v1/", "/v1/x"])
@pytest.mark.parametrize("is_first", [True, False])
def test_a_protocol_for_some_models_is_asked_before_that_of_all(path, is_first):
    every = Scripted(path, found=PredictionCall(model="m"))
    some = Scripted(path, is_selective=True)
    router, _ = table(*([some, every] if is_first else [every, some]))
    passed_on = router.find(b"POST", b"/v1/x", HEADERS)
    asked = len(some.asked), len(every.asked)
    some.found = PredictionCall(model="o")
    taken = router.find(b"POST", b"/v1/x", HEADERS)

    assert (passed_on.protocol, taken.protocol) == (every, some)
    assert asked == (1, 1)
    assert len(every.asked) == 1


def test_the_shape_of_errors_is_that_of_the_protocol_that_answers():
    every, some = Scripted("/v1/"), Scripted("/v1/", is_selective=True)
    _, protocols = table(some, every)
    left = protocols.protocol_of(request(b"/v1/x"))
    some.found = NotReady()
    taken = protocols.protocol_of(request(b"/v1/x"))
    alone = table(Scripted("/v1/", is_selective=True))[1].protocol_of(request(b"/v1/x"))

    assert (left, taken, alone) == (every, some, None)


def test_a_request_that_no_protocol_wants_is_left_to_flask():
    _, protocols = table(Scripted("/v1/"))

    assert response_of(protocols, b"/v1/x") is None
    assert (
        protocols.protocol_of(request(b"/v1/x")) is not None
    )  # whose clients get errors of its shape
    assert protocols.protocol_of(request(b"/m/predict")) is None
    assert protocols.protocol_of(request(b"/v1/m")) is None


def test_an_error_response_that_fails_becomes_problem_details(caplog):
    caplog.set_level(logging.CRITICAL)
    protocol = Scripted("/v1/", found=Unauthorized("who"))
    protocol.error_response = None
    response = response_of(table(protocol)[1], b"/v1/x")

    assert (response.status, response.media_type) == (401, "application/problem+json")


# ---------------------------------------------------------------- the body names the model


def provisional(model, judge=None, body=b"a"):
    """Return the exchange and the request after a prediction whose body names *model*."""
    call = PredictionCall(model="m", is_provisional=True)
    router, _ = table(Scripted("/v1/", found=call, model=model), judge=judge)
    asked, exchange = request(b"/v1/x"), Told(None)
    asked.route = router.find(b"POST", b"/v1/x", HEADERS)
    asked.body = MODEL.bodies.lay([body])
    asked.route.begin(exchange, asked)
    return exchange, asked


@pytest.mark.parametrize("body", [b"small", b"large enough for an arena"])
def test_a_request_is_moved_to_the_model_that_its_body_names(body):
    _, asked = provisional("o", body=body)
    (begun,) = OTHER.begun
    OTHER.begun.clear()

    assert begun[1] is asked
    assert (asked.route.row.name, bytes(asked.content)) == ("o", body)
    assert not MODEL.bodies.slabs
    asked.discard()
    assert not OTHER.bodies.slabs


def test_a_body_that_is_where_it_should_be_stays():
    _, asked = provisional("m", body=b"large enough for an arena")

    assert list(MODEL.bodies.slabs) == [asked.body]
    MODEL.begun.clear()
    asked.discard()


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        pytest.param("x", ModelNotFound, id="no such model"),
        pytest.param(BodyMalformed("no model"), BodyMalformed, id="no model"),
        pytest.param(KeyError("model"), ServekitError, id="a bug"),
    ],
)
def test_a_body_without_a_model_is_freed(model, kind, caplog):
    caplog.set_level(logging.CRITICAL)
    exchange, _ = provisional(model, body=b"large enough for an arena")

    assert type(exchange.response.error) is kind
    assert not MODEL.bodies.slabs


def test_plugins_are_asked_about_the_model_that_the_body_names():
    names = []

    def judge(_exchange, _request, model):
        names.append(model)
        return Forbidden("no") if model == "o" else Identity("ada")

    refused, _ = provisional("o", judge)
    _, admitted = provisional("m", judge)
    MODEL.begun.clear()

    assert names == ["o", "m"]
    assert (type(refused.response.error), OTHER.statuses, OTHER.begun) == (Forbidden, [403], [])
    assert admitted.identity == Identity("ada")


def offering(*protocols):
    class Plugin:
        @hookimpl
        def register_protocols(self):
            return protocols

    return Plugin()


@pytest.mark.parametrize(
    ("first", "second", "named"),
    [
        (Scripted("/v1/"), Scripted("/v2", "/v1/"), "one and two both answer at /v1/"),
        (Scripted("/v1/"), Scripted("v2"), "'v2' is not a path"),
        (Scripted("/v1/"), Scripted("/"), "'/' is not a path"),
        (Scripted("/v1/"), "nonsense", "expected Protocol, got 'nonsense'"),
    ],
)
def test_what_cannot_be_told_apart_is_refused(first, second, named):
    manager = create_plugin_manager(discover=False)
    manager.register(offering(second), "two")
    manager.register(offering(first), "one")
    with pytest.raises(PluginError) as caught:
        gather(manager, SimpleNamespace(settings=Settings()))

    assert named in str(caught.value)
