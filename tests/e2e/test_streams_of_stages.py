# SPDX-License-Identifier: Apache-2.0
"""A stage whose outputs come one by one: as the last step, in the middle, and beside instances."""

import json
import re
import shutil
from pathlib import Path

import pytest
from servekit_client import Client, InputError, Unavailable

from tests.waiting import wait_for_value, wait_until

TELLING = Path(__file__).parent / "models" / "telling"
EVENTS = "text/event-stream"
pytestmark = [pytest.mark.e2e, pytest.mark.slow]


ALONE = re.compile(r"^(\[stages\.(?:split|join)\])$", re.MULTILINE)


@pytest.fixture(scope="module")
def apart(serve):
    return serve("--models", TELLING)


@pytest.fixture(scope="module")
def colocated(serve, tmp_path_factory):
    model = shutil.copytree(TELLING, tmp_path_factory.mktemp("colocated") / "telling")
    text = ALONE.sub(r'\1\ncolocated = "tell"', (model / "model.toml").read_text())
    (model / "model.toml").write_text(text)
    return serve("--models", model)


@pytest.fixture(params=["apart", "colocated"])
def server(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
def client(server):
    with Client(server.url, retries=0) as client:
        yield client


def ask(server, path, value, **headers):
    status, fields, body = server.post(path, json.dumps(value).encode(), **headers)
    return status, fields, body


def stage_metric(server, name, stage):
    text = server.get("/metrics")[1].decode()
    found = re.search(
        rf'servekit_stage_{name}{{model="telling",stage="{stage}",version="1.0"}} ([\d.]+)', text
    )
    return float(found[1]) if found else 0.0


def metric(server, name):
    lines = server.get("/metrics")[1].decode().splitlines()
    prefix = f'servekit_{name}{{model="telling"'
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(prefix))


@pytest.mark.parametrize(
    ("path", "value"),
    [("telling", "once upon a time"), ("/v1/tell", ["once", "upon", "a", "time"])],
)
def test_the_last_step_streams_to_the_client(client, path, value):
    assert list(client.stream(path, value)) == ["once", "upon", "a", "time"]
    assert client.predict(path, value) == ["once", "upon", "a", "time"]


def test_a_stream_tells_what_the_steps_before_it_took(server):
    status, fields, body = ask(server, "/telling/predict", "once upon", Accept=EVENTS)

    assert (status, fields["Content-Type"]) == (200, EVENTS)
    assert body == b'data: "once"\n\ndata: "upon"\n\nevent: end\ndata: {}\n\n'
    assert re.fullmatch(
        r"(split;dur=[\d.]+, queue|queue;dur=[\d.]+, split);dur=[\d.]+, first;dur=[\d.]+",
        fields["Server-Timing"],
    )


def test_stages_are_counted_where_they_ran_and_nowhere_else(server):
    def counted(path):
        before = [metric_of(stage) for stage in ("split", "tell")]
        assert ask(server, path, "once", Accept=f"{EVENTS}, */*;q=0.1")[0] == 200
        return [
            metric_of(stage) - was for stage, was in zip(("split", "tell"), before, strict=True)
        ]

    def metric_of(stage):
        return stage_metric(server, "predict_duration_seconds_count", stage)

    assert counted("/telling/predict") == [1, 1]
    assert counted("/v1/tell") == [0, 1]
    assert counted("/v1/split") == [1, 0]


def test_what_does_not_stream_beside_a_stream_has_a_status_of_its_own(server):
    status, fields, _ = ask(server, "/telling/count", "abc")

    assert (status, fields["X-Counted"]) == (201, "letters")


@pytest.mark.parametrize(
    ("path", "value", "found"),
    [
        ("/v1/join", "once upon", "once-upon"),
        ("/v1/letters", "once upon", ["o-n-c-e", "u-p-o-n"]),
        ("/v1/each", "ab cd", [["a", "b"], ["c", "d"]]),
        ("/telling/count", "abc", 3),
    ],
    ids=["the next step", "each an input of its own", "each a stream", "an endpoint beside"],
)
def test_elsewhere_the_outputs_are_a_list(client, path, value, found):
    assert client.predict(path, value) == found


def test_each_instance_has_its_outputs(client):
    good, bad = client.instances("/v1/tell/all", ["once upon", "once stop"])

    assert good == ["once", "upon"]
    assert (type(bad), bad.detail) == (InputError, "a story must not stop")


@pytest.mark.parametrize("path", ["/v1/join", "/v1/each", "/telling/count"])
def test_who_takes_a_stream_alone_is_told_where_there_is_none(server, path):
    assert ask(server, path, "a", Accept=EVENTS)[0] == 406


def test_an_error_in_a_stream_ends_it(server, client):
    found = []
    with pytest.raises(InputError, match="must not stop"):
        found.extend(client.stream("telling", "once stop"))

    assert found in ([], ["once"])
    assert ask(server, "/telling/predict", "stop", Accept=EVENTS)[0] == 422
    assert ask(server, "/telling/predict", 3, Accept=EVENTS)[0] == 422  # the step before


def test_a_client_may_bound_the_whole_stream(server):
    status, _, body = ask(
        server, "/telling/predict", "on", Accept=EVENTS, X_Request_Timeout_Ms="3000"
    )

    assert status == 200
    assert (
        b'event: error\ndata: {"type":"about:blank","title":"Deadline exceeded","status":504'
        in body
    )
    wait_for_value(lambda: metric(server, "streams_open"), 0, "streams that are open")


def test_a_client_that_leaves_ends_the_stream(server, client):
    outputs = client.stream("telling", "once on")
    assert next(outputs) == "once"
    outputs.close()

    wait_for_value(lambda: metric(server, "streams_open"), 0, "streams that are open")


def test_streams_are_counted_once_and_for_the_model(server, client):
    names = ("requests_total", "outputs_total", "first_output_seconds_count", "model_told_total")
    before = [metric(server, name) for name in names]
    assert list(client.stream("telling", "once upon")) == ["once", "upon"]
    after = [metric(server, name) for name in names]

    assert [b - a for a, b in zip(before, after, strict=True)] == [1, 2, 1, 2]
    text = server.get("/metrics")[1].decode()
    assert re.search(
        r'servekit_model_told_total{model="telling",replica="\d",stage="tell",version="1.0"}', text
    )


def test_a_stream_that_outlives_its_worker_says_so(server, client):
    outputs = client.stream("telling", "once die")
    assert next(outputs) == "once"
    with pytest.raises(Unavailable):
        list(outputs)

    wait_until(lambda: client.ping("telling"), "the worker is replaced")
    assert list(client.stream("telling", "once")) == ["once"]


def test_what_a_route_streams_is_described(server):
    paths = json.loads(server.get("/openapi.json")[1])["paths"]
    gives = {
        path: EVENTS in way["post"]["responses"]["200"]["content"]
        for path, way in paths.items()
        if "post" in way
    }

    assert {path for path, streams in gives.items() if streams} == {"/telling/predict", "/v1/tell"}
