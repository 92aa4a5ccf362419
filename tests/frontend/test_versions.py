# SPDX-License-Identifier: Apache-2.0
"""Several versions of a model: the paths of each, and which one answers where none is named."""

import os
from collections import Counter

import pytest

from servekit.errors import ModelNotFound, RouteNotFound
from servekit.extension import HttpRequest, PredictionCall
from servekit.frontend.http.client_address import ClientAddresses
from servekit.frontend.memory.pressure import Pressure
from servekit.frontend.routing.protocols import Protocols
from servekit.frontend.routing.split import Split, SplitRoute
from servekit.frontend.server.dispatch import Dispatcher
from servekit.ipc.table import Interface, RouteRow, StageRow, StepRow, TrafficRow

from .routed import LARGE, Client, Routed, version_row

SIZE = RouteRow("/m/size", [StepRow(stage="predict", target="size")])
ELSEWHERE = RouteRow("/v1/size", [StepRow(stage="predict", target="size")])


@pytest.fixture
def routed():
    found = Routed()
    yield found
    os.close(found.counters.descriptor)


def two(routed, *, state="serving", **traffic):
    """Publish two versions; the first is the default one."""
    row = version_row("1", interface=Interface(), routes=[SIZE, ELSEWHERE])
    row.versions = [version_row("2", 1, state=state, interface=Interface(), routes=[SIZE])]
    row.traffic = TrafficRow(**traffic)
    routed.publish(row)


PATHS = {
    "/m/predict": "1",
    "/m/size": "1",
    "/m/versions/1/predict": "1",
    "/m/versions/2/predict": "2",
    "/m/versions/2/size": "2",
    "/m/versions/1/v1/size": "1",
    "/m/versions/canary/predict": "2",
    "/m/versions/stable/size": "1",
}


@pytest.mark.parametrize(("path", "version"), PATHS.items())
def test_each_version_answers_at_its_own_paths(routed, path, version):
    two(routed, aliases={"canary": "2", "stable": "1", "gone": "0"})

    assert routed.ask(path) == (version, 200)


@pytest.mark.parametrize(
    "path", ["/m/versions/3/predict", "/m/versions/gone/predict", "/m/versions/2/v1/size"]
)
def test_a_version_that_is_not_loaded_has_no_paths(routed, path):
    two(routed, aliases={"gone": "0"})

    assert routed.find(path) is None


def test_a_path_of_a_manifest_comes_before_one_of_a_version(routed):
    odd = RouteRow("/m/versions/2/predict", [StepRow(stage="predict", target="odd")])
    row = version_row("1", routes=[odd], versions=[version_row("2", 1)])
    routed.publish(row)

    assert routed.ask("/m/versions/2/predict") == ("1", 200)


def test_a_model_without_rules_has_the_plain_routes_of_its_default_version(routed):
    two(routed)
    assert routed.find("/m/predict") is routed.find("/m/versions/1/predict")
    two(routed, weights={"1": 3})
    assert routed.find("/m/predict") is routed.find("/m/versions/1/predict")
    two(routed, weights={"1": 0, "2": 100})
    assert routed.find("/m/predict") is routed.find("/m/versions/2/predict")


@pytest.mark.parametrize("weights", [{"1": 90, "2": 10}, {"1": 1, "2": 1}, {"2": 3, "1": 7}])
def test_every_version_gets_its_share_and_never_more_than_one_off(routed, weights):
    two(routed, weights=weights)
    counts = Counter()
    for turn in range(1, 201):
        counts[routed.ask("/m/predict")[0]] += 1
        for version, weight in weights.items():
            assert abs(counts[version] - turn * weight / sum(weights.values())) <= 1


def test_a_new_table_does_not_begin_the_shares_anew(routed):
    counts = Counter()
    for _ in range(100):
        two(routed, weights={"1": 90, "2": 10})
        counts[routed.ask("/m/predict")[0]] += 1

    assert counts == {"1": 90, "2": 10}


def test_the_value_of_a_header_decides_if_that_is_asked_for(routed):
    two(routed, weights={"1": 50, "2": 50}, sticky="X-User")
    users = [b"%d" % number for number in range(50)]
    seen = [{routed.ask("/m/predict", x_user=user)[0] for _ in range(3)} for user in users]
    two(routed, weights={"1": 20, "2": 80}, sticky="X-User")
    later = [routed.ask("/m/predict", x_user=user)[0] for user in users]

    assert all(len(versions) == 1 for versions in seen)
    assert {"1", "2"} == set().union(*seen)
    moved = {(*before, after) for before, after in zip(seen, later, strict=True)}
    assert moved == {("1", "1"), ("1", "2"), ("2", "2")}  # nobody goes back
    assert len({routed.ask("/m/predict")[0] for _ in range(5)}) == 2  # without the header


def test_a_hash_of_values_is_the_same_everywhere_and_in_proportion():
    split = Split("m", {"1": 75, "2": 25}, "user")
    found = Counter(split.choose({b"user": b"%d" % number}) for number in range(10_000))

    chosen = [split.choose({b"user": b"%d" % number}) for number in range(8)]
    assert chosen == ["1", "2", "1", "1", "1", "1", "1", "2"]
    assert 2300 < found["2"] < 2700


@pytest.mark.parametrize("state", ["starting", "backoff", "failed"])
def test_a_version_without_a_worker_gets_no_share(routed, state):
    two(routed, state=state, weights={"1": 1, "2": 99})

    assert {routed.ask("/m/predict") for _ in range(5)} == {("1", 200)}


def test_a_path_that_one_version_lacks_is_answered_by_the_default_one(routed):
    two(routed, weights={"1": 1, "2": 9})

    assert {routed.ask("/v1/size")[0] for _ in range(20)} == {"1"}
    assert {routed.ask("/m/size")[0] for _ in range(20)} == {"1", "2"}


def test_a_large_body_is_moved_to_the_version_that_is_chosen(routed):
    two(routed, weights={"1": 1, "2": 1})
    bodies = [b"x" * LARGE, b"y" * 2 * LARGE]
    exchanges = [routed.begin("/m/predict", body) for body in bodies]
    seen = {
        bytes(worker.batcher.bodies.content(task.item.body))
        for worker in routed.workers.values()
        for task in worker.tasks
    }
    routed.answer()

    assert seen == set(bodies)
    assert {exchange.response.model_version for exchange in exchanges} == {b"1", b"2"}


@pytest.mark.parametrize("change", ["a new version", "the same version", "unloaded"])
def test_a_request_whose_body_arrives_late_is_answered_by_the_version_of_then(routed, change):
    routed.publish(version_row("1"))
    dispatcher = Dispatcher(
        find=routed.routing.router.find, application=None, address=("", 0), middleware=(),
        decompress=print, clients=ClientAddresses(()),
        pressure=Pressure(0, 5.0), slices=None,
    )  # fmt: skip
    request = HttpRequest(b"POST", b"/m/predict", {}, b"", True, "1.1")
    request.route = routed.find("/m/predict")  # when its head had arrived
    request.body = request.route.bodies.lay([b"x" * LARGE])
    after = {"a new version": ("2", 1), "the same version": ("1", 0)}.get(change)
    routed.publish(*([version_row(*after)] if after else []))
    routed.routing.batchers.sweep(0.0)
    exchange = Client()
    dispatcher.handle(exchange, request)
    routed.answer()
    routed.routing.batchers.sweep(0.0)

    response = exchange.response
    assert (response.status, response.model_version) == {
        "a new version": (200, b"2"), "the same version": (200, b"1"), "unloaded": (503, b"1"),
    }[change]  # fmt: skip
    assert len(list(routed.routing.batchers)) == (1 if after else 0)


def test_stages_of_a_version_stay_together(routed):
    def staged(version, replica):
        row = version_row(version, routes=[RouteRow("/m/predict", [*STEPS])])
        row.stages = [StageRow(name, 8, 0.0, 9e9) for name in "ab"]
        row.replicas = [version_row("", replica + at).replicas[0] for at in range(2)]
        for replica_row, stage in zip(row.replicas, "ab", strict=True):
            replica_row.stage = stage
        return row

    row = staged("1", 0)
    row.versions, row.traffic.weights = [staged("2", 2)], {"1": 1, "2": 1}
    routed.publish(row)
    exchanges = [routed.begin("/m/predict") for _ in range(4)]
    for _ in STEPS:
        routed.answer()

    assert {worker.answered for worker in routed.workers.values()} == {2}
    for exchange in exchanges:
        response = exchange.response
        assert bytes(response.body) == b"by " + response.model_version


STEPS = StepRow(stage="a"), StepRow(stage="b")


# ---------------------------------------------------------------- protocols of plugins


def call(routed, **named):
    return Protocols([], routed.routing.router)._resolve(PROTOCOL, PredictionCall(**named))


class Native:
    envelope = "module:class"


PROTOCOL = Native()


@pytest.mark.parametrize(
    ("named", "version"),
    [
        ({"version": "2"}, b"2"),
        ({"version": "canary"}, b"2"),
        ({"version": "2", "endpoint": "size"}, b"2"),
        ({"endpoint": "size"}, b"1"),
    ],
)
def test_a_protocol_may_name_a_version(routed, named, version):
    two(routed, aliases={"canary": "2"})
    route = call(routed, model="m", **named)

    assert (route.version, route.call.envelope) == (version, "module:class")


def test_a_protocol_that_names_none_is_under_the_rules(routed):
    two(routed, weights={"1": 1, "2": 1})
    route = call(routed, model="m")

    assert isinstance(route._route, SplitRoute)
    assert route.middleware is None


@pytest.mark.parametrize(
    ("named", "error", "text"),
    [
        ({"version": "3"}, ModelNotFound, "m has no version 3; it has 1, 2, canary (2)"),
        ({"version": "2", "endpoint": "no"}, RouteNotFound, "m has no endpoint no"),
    ],
)
def test_what_is_missing_is_named(routed, named, error, text):
    two(routed, aliases={"canary": "2"})
    found = call(routed, model="m", **named)

    assert isinstance(found, error)
    assert found.detail == text
