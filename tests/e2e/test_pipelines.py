# SPDX-License-Identifier: Apache-2.0
"""Stages, routes and endpoints, as clients meet them."""

import json
import re
import shutil
import signal
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic

import pytest

from servekit.frontend.batching.liveness import SILENCE_S
from tests.waiting import wait_until

from .conftest import WAIT_S

MODELS = Path(__file__).parent / "models"
ECHO = Path(__file__).parents[2] / "examples" / "echo"
pytestmark = [pytest.mark.e2e, pytest.mark.slow]


def copy_stages(directory, **words):
    """Return a copy of the model ``stages`` with words of its files replaced."""
    model = shutil.copytree(MODELS / "stages", directory / "stages")
    for file in ("model.toml", "service.py"):
        text = (model / file).read_text()
        for word, other in words.items():
            text = text.replace(word, other)
        (model / file).write_text(text)
    return model


ALONE = re.compile(r"^(\[stages\.(?:decode|format|split)\])$", re.MULTILINE)


def put_together(model):
    """Let the light stages of a copy of the model ``stages`` run in the workers of ``infer``."""
    text = (model / "model.toml").read_text()
    (model / "model.toml").write_text(ALONE.sub(r'\1\ncolocated = "infer"', text))
    return model


@pytest.fixture(scope="module")
def apart(serve):
    models = (MODELS / "stages", MODELS / "caller", ECHO)
    return serve("--models", *models, "--large-body=64K")


@pytest.fixture(scope="module")
def colocated(serve, tmp_path_factory):
    model = put_together(copy_stages(tmp_path_factory.mktemp("colocated")))
    return serve("--models", model, MODELS / "caller", ECHO, "--large-body=64K")


@pytest.fixture(params=["apart", "colocated"])
def server(request):
    return request.getfixturevalue(request.param)


def ask(server, path, value, **headers):
    status, fields, body = server.post(path, json.dumps(value).encode(), **headers)
    return status, fields, json.loads(body)


def predict(server, path, value):
    status, _, answer = ask(server, path, value)
    assert status == 200, answer
    return answer["prediction"]


SUM = {"sum": 3.0, "dtype": "float32", "size": 1}
ANSWERS = {
    "a chain": ("/stages/predict", {"x": [1, 2]}, {"formatted": SUM}),
    "another route through the same stages": ("/v1/sums", {"x": [1, 2]}, SUM),
    "a list, element by element, and what became of each": (
        "/v1/words",
        "one three",
        {"formatted": {"split": ["one", "three"], "infer": [{"letters": 3}, {"letters": 5}]}},
    ),
    "a list of nothing": (
        "/v1/each",
        [],
        [],
    ),
    "elements of a list that the client sent": (
        "/v1/each",
        ["a", "bc"],
        [{"letters": 1}, {"letters": 2}],
    ),
    "the request itself beside a step": (
        "/v1/both",
        "abc",
        {"formatted": {"request": "abc", "infer": {"letters": 3}}},
    ),
    "an endpoint": ("/stages/device", 7, None),
    "an endpoint of another stage": ("/stages/loud", "a", "A"),
    "a large value": ("/v1/sums", {"n": 50_000}, None),
    "a parameter that a stage asks for": ("/stages/language?lang=de&x=1", 0, "de"),
    "another model with stages": ("/v1/chain", [1, 2], {"formatted": SUM}),
    "several models behind one route": (
        "/v1/vote",
        {"x": [1, 2]},
        {"stages": {"formatted": SUM}, "predict": {"x": [1, 2]}},
    ),
}


@pytest.mark.parametrize(("path", "value", "expected"), ANSWERS.values(), ids=ANSWERS)
def test_answers(server, path, value, expected):
    found = predict(server, path, value)

    assert found == expected or expected is None


REFUSALS = {
    "a step refuses": ("/stages/predict", [1], 422, "an object is needed"),
    "an element is refused": ("/v1/words", "one  two", 422, "an empty word"),
    "no list where each element is a task": ("/v1/each", 3, 422, "a list is needed here"),
    "too many elements": ("/v1/each", [0] * 2000, 422, "infer: 2000 elements, limit 1024"),
    "an endpoint's own types": ("/stages/device", "x", 422, "expected int, got str"),
    "a step that is missing": ("/v1/missing", 1, 503, None),
    "no such endpoint": ("/stages/nothing", 1, 404, None),
}


@pytest.mark.parametrize(("path", "value", "status", "detail"), REFUSALS.values(), ids=REFUSALS)
def test_refusals(server, path, value, status, detail):
    found, _, problem = ask(server, path, value)

    assert (found, problem.get("detail") if detail else None) == (status, detail)


def test_one_bad_item_costs_its_neighbours_nothing(server):
    values = [{"x": [n]} if n != 3 else [n] for n in range(8)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda value: ask(server, "/stages/predict", value)[0], values))

    assert found == [200, 200, 200, 422, 200, 200, 200, 200]


def test_each_replica_has_its_own_environment(server):
    found = set()

    def both():
        with ThreadPoolExecutor(8) as pool:
            found.update(pool.map(lambda _: predict(server, "/stages/device", 1), range(16)))
        return len(found) >= 2

    wait_until(both, "both replicas answer")
    assert found == {"0/1", "1/1"}


def test_timing_names_every_step(server):
    _, fields, _ = ask(server, "/stages/predict", {"x": [1]})

    assert re.search(
        r"decode;dur=[\d.]+, infer;dur=[\d.]+, format;dur=[\d.]+", fields["Server-Timing"]
    )


def test_colocated_stages_share_workers_and_are_one_task(colocated, apart):
    _, fields, _ = ask(colocated, "/stages/predict", {"x": [1]})

    assert (len(colocated.workers()), len(apart.workers())) == (2 + 2, 5 + 2)  # with the others'
    assert fields["Server-Timing"].startswith("queue;dur=")  # no front-end between two of them
    _, fields, _ = ask(colocated, "/v1/words", "one two")
    assert re.fullmatch(
        r"split;dur=[\d.]+, infer;dur=[\d.]+, format;dur=[\d.]+", fields["Server-Timing"]
    )  # a graph is led by the front-end


def test_metrics_tell_stages_apart(server):
    counted = re.compile(
        r'servekit_requests_total{model="stages",status="200",version="1.0"} (\d+)'
    )
    before = int(counted.search(server.get("/metrics")[1].decode())[1])
    predict(server, "/stages/predict", {"x": [1]})
    predict(server, "/v1/words", "one two")
    text = server.get("/metrics")[1].decode()

    assert int(counted.search(text)[1]) == before + 2
    for stage in ("decode", "infer", "format", "split"):
        assert (
            f'servekit_stage_batch_size_count{{model="stages",stage="{stage}",version="1.0"}}'
            in text
        )


def test_every_path_is_described(server):
    document = json.loads(server.get("/openapi.json")[1])
    body = document["paths"]["/stages/device"]["post"]["requestBody"]["content"]

    assert body["application/json"]["schema"] == {"type": "integer"}
    assert {"/stages/predict", "/v1/sums", "/v1/large", "/v1/chain"} <= document["paths"].keys()
    operations = [
        way["operationId"] for each in document["paths"].values() for way in each.values()
    ]
    assert len(operations) == len(set(operations))
    swagger = json.loads(server.get("/api-description")[1])["description"]
    assert {"/stages/device", "/v1/words"} <= swagger["paths"].keys()


def test_a_route_takes_post_alone(server):
    assert server.get("/v1/sums")[0] == 405


def test_ping_says_which_route_does_not_answer(server):
    status, body = server.get("/ping")

    assert status == 503
    assert json.loads(body)["reasons"] == ["caller: /v1/missing: no model is called nobody"]
    assert server.get("/stages/ping")[0] == 200


LATE = {"act": "sleep", "seconds": 0.1}


def test_large_values_go_by_shared_memory_and_leave_nothing(serve):
    server = serve("--models", MODELS / "stages", "--arena=1M", "--large-body=4K")
    count = 200_000  # 800 kB: a second one of them has no room while the first is there
    for _ in range(30):
        assert predict(server, "/v1/sums", {"n": count})["sum"] > 0
    with ThreadPoolExecutor(8) as pool:
        jobs = [lambda: ask(server, "/v1/sums", {"n": count})[0] for _ in range(24)]
        jobs += [lambda: ask(server, "/v1/sums", LATE, X_Request_Timeout_Ms="20")[0]] * 4
        found = list(pool.map(lambda job: job(), jobs))
    assert set(found) <= {200, 500, 504}
    assert found[:24] == [200] * 24

    assert predict(server, "/v1/sums", {"n": count})["sum"] > 0


def test_a_worker_that_dies_in_the_middle_is_503_and_replaced(serve):
    server = serve("--models", MODELS / "stages")
    status, _, problem = ask(server, "/stages/predict", {"act": "die"})

    assert (status, problem["title"]) == (503, "Worker lost")
    assert predict(server, "/stages/predict", {"x": [1, 2]}) == {"formatted": SUM}


def test_a_client_that_leaves_in_the_middle_is_let_go(apart):
    body = json.dumps({"act": "sleep", "seconds": 3}).encode()
    head = b"POST /stages/predict HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
    with socket.create_connection(("127.0.0.1", apart.port), timeout=WAIT_S) as client:
        client.sendall(b"%bContent-Length: %d\r\n\r\n%b" % (head, len(body), body))
        client.shutdown(socket.SHUT_WR)

        assert client.recv(1 << 16) == b""  # and it did not wait for ever


def test_a_model_may_let_a_step_be_tried_again(serve, tmp_path):
    model = copy_stages(tmp_path)
    (model / "model.toml").write_text("retry = true\n" + (model / "model.toml").read_text())
    server = serve("--models", model)
    values = [{"x": [1, 2]}, {"act": "die"}, {"x": [1, 2]}, {"x": [1, 2]}]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda value: ask(server, "/stages/predict", value)[0], values))

    assert found == [200, 500, 200, 200]


def test_the_stage_at_work_sees_that_the_client_has_gone(serve, tmp_path):
    server = serve("--models", MODELS / "stages")
    body = b'{"act": "wait", "file": "%b"}' % str(tmp_path / "told").encode()
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(
            b"POST /stages/predict HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
        )
        wait_until((tmp_path / "told").exists, "the stage has begun")

    wait_until(lambda: (tmp_path / "told").read_text() == "gone", "the stage was told")


def test_a_reload_loses_nothing_and_mixes_no_versions(serve, tmp_path):
    model = copy_stages(tmp_path, formatted="v1")
    service = model / "service.py"
    service.write_text(service.read_text().replace('"dtype":', '"by": "v1", "dtype":'))
    server = serve("--models", model)
    stop, found = threading.Event(), []

    def keep_asking():
        while not stop.is_set():
            status, _, answer = ask(server, "/stages/predict", {"x": [1, 2]})
            (name, value), *_ = answer.get("prediction", {"": {}}).items()
            found.append((status, name, value.get("by")))

    with ThreadPoolExecutor(3) as pool:
        for _ in range(3):
            pool.submit(keep_asking)
        wait_until(lambda: len(found) > 20, "there are answers")
        service.write_text(service.read_text().replace("v1", "v2"))
        server.process.send_signal(signal.SIGHUP)
        server.wait_for("serves in place of")
        count = len(found)
        wait_until(lambda: len(found) > count + 50, "there are more answers")
        stop.set()

    assert set(found) == {(200, "v1", "v1"), (200, "v2", "v2")}


def test_a_reload_leaves_a_worker_alone_that_is_busy_for_longer_than_an_idle_one_may_be_silent(
    serve, tmp_path
):
    """The front-ends of the reload cannot know that it has a batch of those before."""
    model, held = copy_stages(tmp_path), tmp_path / "held"
    server = serve("--models", model)
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(predict, server, "/stages/predict", {"act": "hold", "file": str(held)})
        wait_until(held.exists, "the second stage has it")
        server.process.send_signal(signal.SIGHUP)
        until = monotonic() + SILENCE_S + 3.0
        wait_until(lambda: monotonic() > until, "an idle worker would be given up")
        held.unlink()
        slow.result(WAIT_S)

    assert "did not answer" not in server.output


def test_a_reload_waits_for_requests_that_are_between_two_stages(serve, tmp_path):
    model, held = copy_stages(tmp_path, formatted="v1"), tmp_path / "held"
    server = serve("--models", model)
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(predict, server, "/stages/predict", {"act": "hold", "file": str(held)})
        wait_until(held.exists, "the second stage has it")
        (model / "service.py").write_text((model / "service.py").read_text().replace("v1", "v2"))
        server.process.send_signal(signal.SIGHUP)
        server.wait_for("serves in place of")
        wait_until(lambda: "v2" in predict(server, "/stages/predict", {"x": [1]}), "the new one")
        until = monotonic() + 0.3  # the old one's idle stages are looked at several times
        wait_until(lambda: monotonic() > until, "a few looks")
        held.unlink()

        assert "v1" in slow.result(WAIT_S)


ROUTE = 'service = "service:Echo"\n[routes."{}"]\nsteps = ["predict"]\n'
CLASHES = {
    "routes of two models": ("/v1/x", "/v1/x", "b: the path /v1/x already belongs to a route of a"),
    "another model's own": ("/b/ping", "/v1/x", "a: the path /b/ping already belongs to"),
}


@pytest.mark.parametrize(("one", "other", "complaint"), CLASHES.values(), ids=CLASHES)
def test_two_routes_of_one_path_end_the_start(serve, tmp_path, one, other, complaint):
    for name, path in (("a", one), ("b", other)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.toml").write_text(ROUTE.format(path))
        (tmp_path / name / "service.py").write_text((ECHO / "service.py").read_text())
    server = serve("--models", tmp_path / "a", tmp_path / "b", ready=False)
    server.wait_for(complaint)

    assert server.process.wait(WAIT_S) == 3
