# SPDX-License-Identifier: Apache-2.0
"""Which kind of route a path gets: one task for each request where that is enough."""

import os
from types import SimpleNamespace

import gevent
import pytest
from msgspec import structs

from servekit.frontend.batching.environment import BatchingEnvironment
from servekit.frontend.batching.task_route import TaskRoute
from servekit.frontend.memory.pressure import Pressure, QueueMemory
from servekit.frontend.pipelines.instances import InstancesRoute
from servekit.frontend.pipelines.route import PipelineRoute
from servekit.frontend.routing.router import Router
from servekit.frontend.routing.scrape import MANY_SAMPLES, scrape
from servekit.frontend.routing.table import Routing
from servekit.ipc.batches import MethodCall
from servekit.ipc.counters import Counters, create_memory
from servekit.ipc.table import ModelRow, ReplicaRow, RouteRow, StageRow, StepRow, Table


def row(name, *stages, routes=()):
    replicas = [ReplicaRow(0, 1, "/nobody", "serving")]
    return ModelRow(
        name, "1", "", replicas, 8, 0.0, 1.0, 16, stages=list(stages), routes=list(routes)
    )


def steps(*names):
    return [StepRow(stage=name) for name in names]


ALONE = row("alone", routes=[RouteRow("/alone/size", [StepRow(stage="predict", target="size")])])
PARTS = row(
    "parts",
    StageRow("a", 8, 0.0, 1.0, colocated={"guest": None}),
    StageRow("b", 8, 0.0, 1.0),
    routes=[
        RouteRow("/parts/predict", steps("a", "b")),
        RouteRow("/v1/a", steps("b")),
        RouteRow("/v1/both", steps("a", "guest")),
        RouteRow("/v1/all", steps("b"), instances=True),
        RouteRow("/v1/other", [StepRow(model="alone")]),
        RouteRow("/v1/nobody", [StepRow(model="nobody")]),
    ],
)


@pytest.fixture(scope="module")
def counters():
    found = Counters(create_memory())
    yield found
    os.close(found.descriptor)


@pytest.fixture(scope="module")
def routing(counters):
    environment = BatchingEnvironment(
        loop=SimpleNamespace(), pressure=Pressure(0, 5.0), queue_memory=QueueMemory(1000),
        report=None, begin_call=None, front_ends=1, arena_bytes=2**16, large_body_bytes=2**16,
    )  # fmt: skip
    found = Routing(environment, counters.share(counters.give()), Router())
    found.update(Table([ALONE, PARTS]))
    return found


BOTH = (MethodCall("a"), MethodCall("guest"))
KINDS = {
    "/alone/predict": (TaskRoute, ()),
    "/alone/size": (TaskRoute, (MethodCall(method="size"),)),
    "/v1/a": (TaskRoute, ()),
    "/v1/both": (TaskRoute, BOTH),
    "/parts/predict": (PipelineRoute, None),
    "/v1/all": (InstancesRoute, None),
    "/v1/other": (PipelineRoute, None),  # which counts for the model that has the path
}


@pytest.mark.parametrize(("path", "expected"), KINDS.items(), ids=KINDS)
def test_the_kind_of_a_route(routing, path, expected):
    route = routing.router.find(b"POST", path.encode(), {})

    assert (type(route), getattr(route, "_calls", None)) == expected


def test_a_route_that_leads_nowhere_says_why(routing):
    assert routing.router.find(b"POST", b"/v1/nobody", {}) is None
    assert routing.unresolved("parts") == ["/v1/nobody: no model is called nobody"]


def test_only_models_that_changed_or_call_others_get_new_routes(routing):
    paths = ["/alone/predict", "/v1/a"]

    def found():
        return [routing.router.find(b"POST", path.encode(), {}) for path in paths]

    before = found()
    routing.update(Table([ALONE, PARTS]))
    same = [old is new for old, new in zip(before, found(), strict=True)]
    routing.update(Table([structs.replace(ALONE, description="new"), PARTS]))
    changed = [old is new for old, new in zip(before, found(), strict=True)]

    assert (same, changed) == ([True, False], [False, False])  # PARTS calls other models
    routing.update(Table([ALONE, PARTS]))


def test_other_greenlets_run_while_the_series_of_many_models_are_written(routing, counters):
    turns, families = [], []

    def take_turns():
        while True:
            turns.append(len(families))
            gevent.sleep(0)

    routing.update(Table([row(f"m{number}") for number in range(60)]))
    other = gevent.spawn(take_turns)
    try:
        families += scrape(routing, counters, None)
    finally:
        other.kill()
        routing.update(Table([ALONE, PARTS]))
    large = [each for each in families if len(each.samples) > MANY_SAMPLES]

    assert len(turns) >= len(large) > 5
