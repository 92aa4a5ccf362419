# SPDX-License-Identifier: Apache-2.0
"""What pages of other origins are told."""

import pytest

from .conftest import FrontEndUnderTest, post, receive

OURS = "https://app.example"
PREFLIGHT = (
    "OPTIONS /echo/predict HTTP/1.1\r\nHost: a\r\nOrigin: {}\r\n"
    "Access-Control-Request-Method: POST\r\n"
    "Access-Control-Request-Headers: authorization,content-type\r\n\r\n"
)


@pytest.fixture(
    scope="module", params=[(OURS, "http://localhost:3000"), ("*",)], ids=["two", "all"]
)
def open_to(request, tmp_path_factory):
    """One front-end that is open to two origins, and one that is open to all."""
    tokens = tmp_path_factory.mktemp("tokens") / "predict"
    tokens.write_text("token")
    front_end = FrontEndUnderTest(
        tmp_path_factory.mktemp("run"),
        cors_origins=request.param, predict_token_file=str(tokens), max_body=1000,
    )  # fmt: skip
    front_end.is_for_all = request.param == ("*",)
    yield front_end
    assert front_end.stop() == 0


def send(front_end, text):
    with front_end.connect() as sock:
        sock.sendall(text if isinstance(text, bytes) else text.encode())
        return receive(sock)


def permission(headers):
    return {name: text for name, text in headers.items() if name.startswith("access-control")}


def test_preflight_needs_no_token_and_is_answered(open_to):
    status, headers, body = send(open_to, PREFLIGHT.format(OURS))

    assert (status, body) == (204, b"")
    assert headers["access-control-allow-origin"] == ("*" if open_to.is_for_all else OURS)
    assert headers["access-control-allow-methods"] == "GET, POST, DELETE"
    assert headers["access-control-allow-headers"] == "authorization,content-type"
    assert headers["access-control-max-age"] == "600"
    assert "access-control-allow-credentials" not in headers


ANSWERS = {
    "prediction": (post(b"hi", f"Origin: {OURS}", "Authorization: Bearer token"), 200),
    "refusal": (post(b"hi", f"Origin: {OURS}"), 401),
    "refusal before the body": (
        f"POST / HTTP/1.1\r\nHost: a\r\nOrigin: {OURS}\r\nContent-Length: 999\r\n\r\n", 401,
    ),
    "body over the limit": (
        f"POST / HTTP/1.1\r\nHost: a\r\nOrigin: {OURS}\r\nContent-Length: 9999\r\n\r\n", 413,
    ),
    "Flask route": (f"GET /ping/live HTTP/1.1\r\nHost: a\r\nOrigin: {OURS}\r\n\r\n", 200),
    "unknown route": (f"GET /nowhere HTTP/1.1\r\nHost: a\r\nOrigin: {OURS}\r\n\r\n", 404),
}  # fmt: skip


@pytest.mark.parametrize(("text", "status"), ANSWERS.values(), ids=ANSWERS)
def test_page_may_read_every_answer(open_to, text, status):
    got, headers, _ = send(open_to, text)

    assert got == status
    assert headers["access-control-allow-origin"] == ("*" if open_to.is_for_all else OURS)
    assert headers.get("vary") == (None if open_to.is_for_all else "Origin")
    assert {"X-Request-Id", "X-Model-Version"} <= {
        *headers["access-control-expose-headers"].split(", ")
    }


@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example",
        "http://app.example",
        f"{OURS}.evil.example",
        f"{OURS}:8443",
        "null",
        "",
    ],
)
def test_page_of_another_origin_may_not_unless_all_may(open_to, origin):
    asked = send(open_to, PREFLIGHT.format(origin))[1]
    status, headers, _ = send(
        open_to, post(b"1", f"Origin: {origin}", "Authorization: Bearer token")
    )

    assert status == 200
    for said in (asked, headers):
        assert said.get("access-control-allow-origin") == ("*" if open_to.is_for_all else None)
        assert said.get("vary") == (None if open_to.is_for_all else "Origin")
        assert bool(permission(said)) is open_to.is_for_all


def test_origin_of_one_request_does_not_leak_into_the_next(open_to):
    with open_to.connect() as sock:
        sock.sendall(post(b"1", f"Origin: {OURS}", "Authorization: Bearer token"))
        receive(sock)
        sock.sendall(post(b"2", "Authorization: Bearer token"))

        assert permission(receive(sock)[1]) == {}


def test_header_names_that_are_none_are_not_echoed(open_to):
    text = PREFLIGHT.format(OURS).replace("authorization,", "<script>")

    assert "access-control-allow-headers" not in send(open_to, text)[1]


def test_nothing_is_said_unless_it_is_set(shared):
    headers = send(shared, post(b"hi", f"Origin: {OURS}"))[1]
    asked = send(shared, PREFLIGHT.format(OURS))

    assert (permission(headers), permission(asked[1]), "vary" in headers) == ({}, {}, False)
    assert asked[1]["allow"] == "POST"
