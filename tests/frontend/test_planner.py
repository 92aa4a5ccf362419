# SPDX-License-Identifier: Apache-2.0
"""From the steps of a route to nodes: who answers, and what each gets from whom."""

from types import SimpleNamespace

import pytest

from servekit.frontend.pipelines.pipeline import REQUEST
from servekit.frontend.pipelines.planner import Unresolved, plan
from servekit.ipc.batches import MethodCall, Reading
from servekit.ipc.table import ModelRow, RouteRow, StageRow, StepRow


def model(name, *stages, own=(), colocated=None):
    """Return the row of a model with *stages*, whose own path leads through *own*."""
    rows = [
        StageRow(each, 1, 0.0, 1.0, colocated=dict.fromkeys((colocated or {}).get(each, ())))
        for each in stages
    ]
    routes = [RouteRow(f"/{name}/predict", list(own))] if own else []
    return ModelRow(name, "1.0", "", [], 1, 0.0, 1.0, 8, stages=rows, routes=routes)


AB = model("ab", "a", "b", own=[StepRow(stage="a"), StepRow(stage="b")])
ALONE = model("alone")
WITHOUT = model("without", "x")
LOOP = model("loop", "l", own=[StepRow(stage="l"), StepRow(model="back")])
BACK = model("back", "k", own=[StepRow(model="loop")])
HOST = model("host", "h", "other", colocated={"h": ["guest"]})


def nodes_of(row, *steps):
    """Resolve *steps*; show each node as label, batcher, sources, names, is_each, calls."""
    rows = {each.name: each for each in (AB, ALONE, WITHOUT, LOOP, BACK, HOST)}
    batchers = {
        label: SimpleNamespace(
            label=label,
            row=SimpleNamespace(name=each.name, colocated=colocated, interface=None, stage=stage),
        )
        for each in rows.values()
        for label, stage, colocated in [
            *((f"{each.name}:{stage.name}", stage.name, stage.colocated) for stage in each.stages),
            *([(each.name, "", {})] if not each.stages else []),
        ]
    }
    found = plan(row, RouteRow("/r", list(steps)), rows, batchers)
    return [
        (each.label, each.batcher.label, each.sources, each.names, each.is_each, each.calls)
        for each in found
    ]


def node(label, batcher, sources, names=(), calls=(), *, is_each=False):
    return label, batcher, list(sources), list(names), is_each, calls


READ, CUT = [(MethodCall(method=each),) for each in (Reading.WHOLE, Reading.ELEMENTS)]
A, B = StepRow(stage="a"), StepRow(stage="b")
FIRST = node("a", "ab:a", [REQUEST])
WAYS = {
    "a chain": (AB, [A, B], [FIRST, node("b", "ab:b", [0])]),
    "a stage twice": (
        AB,
        [A, StepRow(stage="a", name="again")],
        [FIRST, node("again", "ab:a", [0])],
    ),
    "several inputs": (
        AB,
        [A, StepRow(stage="b", inputs=["a", "request"])],
        [
            FIRST,
            node("", "ab:b", [REQUEST], calls=READ),
            node("b", "ab:b", [0, 1], ["a", "request"]),
        ],
    ),
    "an earlier step alone": (
        AB,
        [A, StepRow(stage="b", name="aside"), StepRow(stage="b", inputs=["a"])],
        [FIRST, node("aside", "ab:b", [0]), node("b", "ab:b", [0])],
    ),
    "each of what the client sent": (
        AB,
        [StepRow(stage="a", each=True), B],
        [
            node("", "ab:a", [REQUEST], calls=CUT),
            node("a", "ab:a", [0], is_each=True),
            node("b", "ab:b", [1]),
        ],
    ),
    "each at the end is written for the client": (
        AB,
        [A, StepRow(stage="b", each=True)],
        [
            FIRST,
            node("b", "ab:b", [0], is_each=True),
            node("", "ab:b", [1], calls=READ),
        ],
    ),
    "an endpoint": (
        AB,
        [StepRow(stage="a", target="m")],
        [node("a", "ab:a", [REQUEST], calls=(MethodCall(method="m"),))],
    ),
    "a model of one service": (
        AB,
        [A, StepRow(model="alone")],
        [FIRST, node("alone", "alone", [0])],
    ),
    "a model of stages": (
        HOST,
        [StepRow(model="ab", name="inner"), StepRow(stage="other", inputs=["inner"])],
        [FIRST, node("b", "ab:b", [0]), node("other", "host:other", [1])],
    ),
    "stages of one worker are one node": (
        HOST,
        [StepRow(stage="h"), StepRow(stage="guest"), StepRow(stage="other")],
        [
            node("h+guest", "host:h", [REQUEST], calls=(MethodCall("h"), MethodCall("guest"))),
            node("other", "host:other", [0]),
        ],
    ),
}


@pytest.mark.parametrize(("row", "steps", "expected"), WAYS.values(), ids=WAYS)
def test_steps_become_nodes(row, steps, expected):
    assert nodes_of(row, *steps) == expected


PROBLEMS = {
    "no such model": ([StepRow(model="nobody")], "no model is called nobody"),
    "a model within itself": ([StepRow(model="loop")], "loop contains itself"),
    "a model without a path of its own": (
        [StepRow(model="without")],
        "without has no /without/predict",
    ),
    "each into a model of stages": (
        [A, StepRow(model="loop", each=True)],
        "loop has several stages: it takes exactly one unchanged input",
    ),
    "several inputs into a model of stages": (
        [A, StepRow(model="loop", inputs=["a", "request"])],
        "loop has several stages: it takes exactly one unchanged input",
    ),
}


@pytest.mark.parametrize(("steps", "problem"), PROBLEMS.values(), ids=PROBLEMS)
def test_what_is_not_there_is_named(steps, problem):
    with pytest.raises(Unresolved, match=problem):
        nodes_of(AB, *steps)


def test_a_path_that_is_anothers_leads_nowhere():
    with pytest.raises(Unresolved, match="already belongs to a route of x"):
        plan(AB, RouteRow("/r", [A], problem="already belongs to a route of x"), {}, {})
