# SPDX-License-Identifier: Apache-2.0
"""Who may predict: judged when the header section is whole, and before any body is kept."""

import json
from hashlib import sha256
from types import SimpleNamespace

import pytest

from servekit.errors import Forbidden, NotReady, ServekitError, TooManyRequests, Unauthorized
from servekit.extension import Identity
from servekit.frontend.middleware.auth import Access
from servekit.settings.tokens import Tokens

from .conftest import post, receive

PLAIN, INVALID = 'Bearer realm="servekit"', 'Bearer realm="servekit", error="invalid_token"'


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """One front-end that wants a token, for all tests that leave it as it was."""
    from .conftest import FrontEndUnderTest

    directory = tmp_path_factory.mktemp("run")
    predict, manage = directory / "predict", directory / "manage"
    predict.write_text("# two\nfirst-token\nsecond-token==\n")
    manage.write_text("manage-token\n")
    front_end = FrontEndUnderTest(
        directory, predict_token_file=str(predict), manage_token_file=str(manage)
    )
    yield front_end
    assert front_end.stop() == 0


def ask(front_end, *headers, body=b"hi", path="/echo/predict"):
    with front_end.connect() as sock:
        sock.sendall(post(body, *headers, path=path))
        return receive(sock)


@pytest.mark.parametrize(
    "given",
    [
        "Bearer first-token",
        "bearer second-token==",
        "BEARER first-token",
        "Bearer first-token  ",
        "Bearer   first-token",
    ],
)
def test_token_opens(guarded, given):
    assert ask(guarded, f"Authorization: {given}")[::2] == (200, b"hi")


REFUSED = {
    "no token": ([], 401, PLAIN),
    "another scheme": (["Authorization: Basic Zmlyc3QtdG9rZW4="], 401, PLAIN),
    "empty header": (["Authorization:"], 401, PLAIN),
    "wrong token": (["Authorization: Bearer third-token"], 401, INVALID),
    "beginning of a token": (["Authorization: Bearer first-toke"], 401, INVALID),
    "longer than a token": (["Authorization: Bearer first-tokens"], 401, INVALID),
    "other case": (["Authorization: Bearer FIRST-TOKEN"], 401, INVALID),
    "scheme alone": (["Authorization: Bearer"], 401, INVALID),
    "a tab": (["Authorization: Bearer\tfirst-token"], 401, INVALID),
    "no space": (["Authorization: Bearerfirst-token"], 401, INVALID),
    "two tokens": (["Authorization: Bearer first-token, Bearer second-token=="], 401, INVALID),
    "token of management": (["Authorization: Bearer manage-token"], 403, None),
}


@pytest.mark.parametrize(("headers", "status", "challenge"), REFUSED.values(), ids=REFUSED)
def test_refusal(guarded, headers, status, challenge):
    got, answered, body = ask(guarded, *headers)

    assert (got, answered.get("www-authenticate")) == (status, challenge)
    assert json.loads(body)["status"] == status
    assert b"first" not in body


def test_header_given_twice_breaks_the_request(guarded):
    assert ask(guarded, *["Authorization: Bearer first-token"] * 2)[0] == 400


def test_refused_request_that_came_whole_leaves_the_connection_open(guarded):
    with guarded.connect() as sock:
        sock.sendall(post(b"hi") + post(b"ho", "Authorization: Bearer first-token"))

        assert receive(sock)[0] == 401
        assert receive(sock)[::2] == (200, b"ho")


@pytest.mark.parametrize(
    "rest",
    [
        pytest.param("Content-Length: 9000000\r\n\r\nabc", id="declared body"),
        pytest.param("Content-Length: 9000000\r\nExpect: 100-continue\r\n\r\n", id="expects 100"),
        pytest.param("Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", id="chunked body"),
    ],
)
@pytest.mark.parametrize("path", ["/echo/predict", "/nothing/predict", "/ping"])
def test_refusal_comes_before_the_body_and_closes(guarded, path, rest):
    with guarded.connect() as sock:
        sock.sendall(f"POST {path} HTTP/1.1\r\nHost: a\r\n{rest}".encode())
        status, headers, _ = receive(sock)

        assert (status, headers["connection"]) == (401, "close")
        assert sock.recv(1) == b""


def test_head_that_is_refused_is_the_last_of_its_connection(guarded):
    with guarded.connect() as sock:
        sock.sendall(b"HEAD /ping HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx" + post(b"hi"))
        with sock.makefile("rb") as stream:
            answer = stream.read()

        assert answer.startswith(b"HTTP/1.1 401 ")
        assert answer.count(b"HTTP/1.1") == 1
        assert answer.endswith(b"\r\n\r\n")


def test_wish_for_another_protocol_does_not_get_past(guarded):
    wish = ["Connection: Upgrade", "Upgrade: h2c"]

    assert ask(guarded, *wish)[0] == 401
    assert ask(guarded, *wish, "Authorization: Bearer first-token")[::2] == (200, b"hi")


@pytest.mark.parametrize("path", ["/ping/live", "/", "/openapi.json", "/metrics", "/docs"])
def test_what_only_reads_is_open(guarded, path):
    with guarded.connect() as sock:
        sock.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())

        assert receive(sock)[0] == 200


def test_descriptions_say_that_a_token_is_needed(guarded):
    with guarded.connect() as sock:
        sock.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: a\r\n\r\n")
        document = json.loads(receive(sock)[2])

    assert document["paths"]["/echo/predict"]["post"]["security"] == [{"token": []}]


def test_refusals_are_counted_for_known_models_only(guarded):
    ask(guarded)
    ask(guarded, path="/nothing/predict")
    with guarded.connect() as sock:
        sock.sendall(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n")
        text = receive(sock)[2].decode()

    counted = [line for line in text.splitlines() if 'status="401"' in line and "echo" in line]
    assert float(counted[0].split()[-1]) >= 1
    assert "nothing" not in text


# ---------------------------------------------------------------- plugins


JOB = b"/jobs/%b-%b" % (b"0" * 8, b"0" * 32)


def judge(
    opinions,
    *,
    method=b"POST",
    target=b"/echo/predict",
    tokens=None,
    is_provisional=False,
    **headers,
):
    """Return what plugins of these *opinions* make of a request, and how often they were asked."""
    asked = []

    def authorize(request):
        asked.append(request)
        if isinstance(opinions, Exception):
            raise opinions
        return opinions

    counted = []
    batcher = SimpleNamespace(
        is_provisional=is_provisional,
        row=SimpleNamespace(name="echo"),
        metrics=SimpleNamespace(count_status=counted.append),
    )

    def find(method, target, _headers):
        return batcher if (method, target) == (b"POST", b"/echo/predict") else None

    protected = {"/jobs/": lambda target: "echo" if target.encode().startswith(JOB) else ""}
    exchange = SimpleNamespace(peer=("192.0.2.7", 5), subject="commonName=ada")
    access = Access(tokens or Tokens(), authorize, find, protected, ["/managed/"], ["/own/"])
    given = {name.encode(): value.encode() for name, value in headers.items()}
    return access(exchange)(method, target, given, False), asked, counted


@pytest.mark.parametrize(
    ("opinions", "status"),
    [
        pytest.param([], None, id="no opinion"),
        pytest.param([Forbidden("no")], 403, id="one refusal"),
        pytest.param(
            [TooManyRequests(retry_after_s=3), Unauthorized("who")], 401, id="lowest status wins"
        ),
        pytest.param(
            [Unauthorized("who"), TooManyRequests(retry_after_s=3)], 401, id="in any order"
        ),
        pytest.param(RuntimeError("bug"), 500, id="exception lets nobody in"),
        pytest.param([True], 500, id="what is no refusal lets nobody in"),
        pytest.param([NotReady()], 500, id="another error lets nobody in"),
    ],
)
def test_opinions_of_plugins(opinions, status):
    refusal, asked, counted = judge(opinions)

    assert (refusal.status if refusal else None) == status
    assert (len(asked), counted) == (1, [status] if status else [])


def test_error_of_a_plugin_tells_the_client_nothing():
    assert type(judge(RuntimeError("secret"))[0]) is ServekitError


def test_plugins_are_not_asked_about_a_model_that_the_body_may_change():
    assert judge([Forbidden("no")], is_provisional=True)[:2] == (None, [])


@pytest.mark.parametrize(
    ("opinions", "found"),
    [
        pytest.param([Identity("ada")], Identity("ada"), id="one"),
        pytest.param([Identity("ada"), Identity("ada")], Identity("ada"), id="two that agree"),
        pytest.param([Identity("ada"), Identity("bob")], 500, id="two that differ"),
        pytest.param([Identity("ada"), Identity("ada", {"x": "y"})], 500, id="in attributes"),
        pytest.param([Identity("ada"), Forbidden("no")], 403, id="a refusal wins"),
    ],
)
def test_identities(opinions, found):
    verdict = judge(opinions)[0]

    assert (verdict.status if isinstance(verdict, ServekitError) else verdict) == found


def test_plugins_are_told_who_asks_for_what():
    (request,) = judge([], authorization="Bearer x")[1]

    assert (request.model, request.method, request.peer) == ("echo", "POST", "192.0.2.7")
    assert request.subject == "commonName=ada"
    assert request.is_prediction
    assert request.headers == {"authorization": "Bearer x"}


@pytest.mark.parametrize(
    ("method", "target"), [(b"GET", b"/ping"), (b"POST", b"/other/predict"), (b"POST", b"/ping")]
)
def test_plugins_are_asked_about_predictions_alone(method, target):
    assert judge([Forbidden("no")], method=method, target=target)[:2] == (None, [])


@pytest.mark.parametrize("method", [b"GET", b"HEAD", b"DELETE"])
@pytest.mark.parametrize("part", [b"", b"/result", b"?x=/", b"/result?"])
@pytest.mark.parametrize("job", [JOB, JOB.replace(b"j", b"%6a"), JOB.replace(b"0", b"%30")])
def test_plugins_are_asked_about_jobs_with_their_model(method, part, job):
    refusal, asked, _ = judge([Forbidden("no")], method=method, target=job + part)

    assert (refusal.status, [request.model for request in asked]) == (403, ["echo"])
    assert not asked[0].is_prediction


def test_plugins_are_not_asked_where_the_token_is_wrong():
    refusal, asked, _ = judge([], tokens=Tokens(predict=(b"0" * 32,)))

    assert (refusal.status, asked) == (401, [])


@pytest.mark.parametrize("method", [b"GET", b"POST"])
@pytest.mark.parametrize(
    ("given", "status"),
    [
        pytest.param({}, 401, id="no token"),
        pytest.param({"authorization": "Bearer client"}, 403, id="that for predictions"),
        pytest.param({"authorization": "Bearer manager"}, None, id="that for management"),
    ],
)
def test_managed_paths_need_the_token_for_management(method, given, status):
    tokens = Tokens((sha256(b"client").digest(),), (sha256(b"manager").digest(),))
    for target in (b"/managed/x", b"/%6danaged/x"):
        verdict, asked, _ = judge([], method=method, target=target, tokens=tokens, **given)

        assert (verdict.status if verdict else None, asked) == (status, [])


@pytest.mark.parametrize("method", [b"GET", b"POST"])
def test_views_with_access_of_their_own_are_asked_without_a_token(method):
    tokens = Tokens((sha256(b"client").digest(),), (sha256(b"manager").digest(),))

    assert judge([], method=method, target=b"/own/x", tokens=tokens)[0] is None
    assert judge([], method=b"POST", target=b"/other", tokens=tokens)[0].status == 401
