# SPDX-License-Identifier: Apache-2.0
"""Several instances in one request, each answered by itself."""

import json
import re
import socket
from pathlib import Path

import msgpack
import pytest

from .conftest import WAIT_S

MODELS = Path(__file__).parent / "models"
pytestmark = [pytest.mark.e2e, pytest.mark.slow]


@pytest.fixture(scope="module")
def server(serve):
    return serve("--models", MODELS / "several", "--large-body=64K", "--queue=64")


def ask(server, value, path="/several/instances", **headers):
    status, fields, body = server.post(path, json.dumps(value).encode(), **headers)
    return status, fields, json.loads(body)


def roots(server, *xs, path="/several/instances"):
    """Return status, and of each instance its prediction or the status and detail of its error."""
    status, _, answer = ask(server, {"instances": [{"x": x} for x in xs]}, path)
    return status, [
        each.get("prediction") or short(each["error"]) for each in answer["predictions"]
    ]


def short(error):
    return error["status"], error.get("detail")


def test_each_instance_has_its_answer_in_its_place(server):
    assert roots(server, 4, 9, 16) == (200, [2, 3, 4])


def test_one_bad_instance_of_eight_is_one_error_and_seven_answers(server):
    status, answers = roots(server, 1, 4, 9, "a", 16, 25, 36, 49)

    assert status == 207
    assert answers == [1, 2, 3, (422, "x: expected float, got str"), 4, 5, 6, 7]


def test_what_predict_refuses_in_place_is_told_in_place(server):
    assert roots(server, 4, -1) == (207, [2, (422, "x: negative")])


def test_every_instance_may_fail(server):
    status, answers = roots(server, 13)

    assert status == 207
    assert answers[0][0] == 500


def test_instances_go_through_all_steps_each_by_itself(server):
    status, answers = roots(server, 4, 25, -1, 9, path="/v1/doubled")

    assert status == 207
    assert answers == [4, (422, "no: 5"), (422, "x: negative"), 6]


def test_an_error_is_a_problem_with_its_fields(server):
    _, fields, answer = ask(server, {"instances": [{}]}, **{"X-Request-Id": "id-7"})
    (found,) = answer["predictions"]

    assert found["error"]["errors"] == [{"field": "x", "message": "missing"}]
    assert found["error"]["request_id"] == fields["X-Request-Id"] == "id-7"


def test_no_instances_have_no_predictions(server):
    assert roots(server) == (200, [])


@pytest.mark.parametrize(
    ("value", "detail"),
    [
        ([1], "expected an object with instances"),
        ({"instance": []}, "instances: missing"),
        ({"instances": {"x": 1}}, "instances: expected an array"),
        ({"instances": [], "x": 1}, "x: unknown field"),
        ({"instances": [{"x": 1}] * 65}, "instances: 65 of them, limit 64"),
    ],
    ids=["an array", "another name", "no array", "another field", "too many"],
)
def test_a_body_of_another_kind_is_refused_as_a_whole(server, value, detail):
    status, _, answer = ask(server, value)

    assert status == 422
    assert answer["detail"] == detail


def test_a_body_that_is_no_json_is_malformed(server):
    assert server.post("/several/instances", b'{"instances": [')[0] == 400


def test_instances_may_come_as_msgpack_and_be_large(server):
    large = {"x": 4, "pad": "x" * 200_000}
    body = msgpack.packb({"instances": [large, {"x": 9}, large]})
    status, fields, answer = server.post("/several/instances", body, "application/msgpack")

    assert status == 200
    assert fields["Content-Type"] == "application/json"
    assert [each["prediction"] for each in json.loads(answer)["predictions"]] == [2, 3, 2]


def counted(server):
    _, text = server.get("/metrics")
    found = re.findall(
        rb'^servekit_request_duration_seconds_count\{model="several",version="1.0"\} (\S+)',
        text,
        re.M,
    )
    assert found, text.decode()
    return float(found[0])


def test_a_request_is_counted_once_whatever_it_holds(server):
    before = counted(server)
    roots(server, 4, 9)
    roots(server, 4, "a", -1)

    assert counted(server) == before + 2


def test_instances_come_in_each_media_type_that_is_listed(server):
    form = b'--B\r\nContent-Disposition: form-data; name="instances"\r\n\r\n[{"x": 9}]\r\n--B--\r\n'
    paths = json.loads(server.get("/openapi.json")[-1])["paths"]
    listed = paths["/several/instances"]["post"]["requestBody"]["content"]
    statuses = set()
    for media_type in listed:
        if media_type.startswith("multipart/"):
            body, header = form, f"{media_type}; boundary=B"
        else:
            write = json.dumps if media_type.endswith("json") else msgpack.packb
            body, header = write({"instances": [{"x": 9}]}), media_type
        body = body.encode() if isinstance(body, str) else body
        statuses.add(server.post("/several/instances", body, header)[0])

    assert len(listed) == 5
    assert statuses == {200}


def test_large_instances_leave_nothing_in_shared_memory(serve):
    server = serve("--models", MODELS / "several", "--arena=1M", "--large-body=4K")
    value = {"instances": [{"x": 4, "pad": "x" * 100_000}, {"x": -1, "pad": "x" * 100_000}]}
    for _ in range(20):
        assert ask(server, value, "/v1/doubled")[0] == 207
    late = [ask(server, value, "/v1/doubled", X_Request_Timeout_Ms="3")[0] for _ in range(20)]

    assert set(late) <= {207, 504}
    assert ask(server, {"instances": [{"x": 4, "pad": "x" * 300_000}] * 2})[0] == 200


def test_a_client_that_leaves_takes_its_instances_along(server):
    body = json.dumps({"instances": [{"x": 4}] * 64}).encode()
    head = b"POST /several/instances HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
    for _ in range(50):
        with socket.create_connection(("127.0.0.1", server.port), timeout=WAIT_S) as client:
            client.sendall(b"%bContent-Length: %d\r\n\r\n%b" % (head, len(body), body))
            client.shutdown(socket.SHUT_WR)
            while client.recv(1 << 16):
                pass

    assert roots(server, *[4] * 64) == (200, [2] * 64)


def test_the_deadline_of_the_request_is_that_of_each(server):
    status, _, answer = ask(server, {"instances": [{"x": 4}]}, **{"X-Request-Timeout-Ms": "0"})

    assert status == 504
    assert answer["title"] == "Deadline exceeded"


ODD = [2**64, -(2**70), "\ud800", {"\udfff": [1e300, 2**200]}, [], None, "plain"]


def test_long_integers_and_lone_surrogates_stay_what_they_are_and_fail_no_neighbour(server):
    status, _, answer = ask(server, {"instances": ODD}, "/v1/kept")

    assert status == 200
    assert [each["prediction"] for each in answer["predictions"]] == ODD


@pytest.mark.parametrize("path", ["/v1/each", "/v1/twice"])
def test_the_steps_of_a_route_hand_on_whatever_a_client_sends(server, path):
    status, _, answer = ask(server, ODD, path)

    assert status == 200
    assert answer == {"prediction": ODD}
