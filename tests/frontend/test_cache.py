# SPDX-License-Identifier: Apache-2.0
"""Answers that are kept."""

import gzip
import itertools
from time import monotonic
from types import SimpleNamespace

import pytest

from servekit.extension import HttpRequest, Identity
from servekit.frontend.metrics.families import collect
from servekit.frontend.middleware.cache import _key
from servekit.ipc.table import Interface, ReplicaRow

from .clients import ECHO
from .conftest import WAIT_S, FrontEndUnderTest, ScriptedWorker, post, receive

CACHE = {"cache": {"max_bytes": 20_000, "ttl_s": 60}}
DESCRIPTION = (
    b"GET /openapi.json HTTP/1.1\r\nHost: a\r\n\r\n"  #: has the descriptions of the models
)


@pytest.fixture(scope="module")
def caching(tmp_path_factory):
    """One front-end whose worker never says the same twice."""
    front_end = FrontEndUnderTest(
        tmp_path_factory.mktemp("run"), compression=("gzip",), large_body=4096, arena=65_536
    )
    yield front_end
    assert front_end.stop() == 0


@pytest.fixture
def ask(caching):
    """Send a request to a cache that is empty; say what came, and whether it was known."""
    worker, numbers = caching.worker, itertools.count()
    worker.responses = {}
    worker.answer = lambda item: ("", "text/plain", b"%d:%d" % (next(numbers), len(item.body)))
    renew(caching)

    def ask(body=b"1", *headers, path="/echo/predict"):
        status, found, answer = exchange(caching, post(body, *headers, path=path))
        return status, found.get("x-cache"), answer

    return ask


def exchange(front_end, text):
    with front_end.connect() as sock:
        sock.sendall(text)
        return receive(sock)


def renew(front_end, **changes):
    """Publish a table that empties the cache, and wait until it counts."""
    mark = f"{monotonic()}"
    manifest = changes.pop("manifest", CACHE)
    manifest = {name: {**asked, "mark": mark} for name, asked in manifest.items()}
    front_end.publish(manifest=manifest, description=mark, **changes)
    deadline = monotonic() + WAIT_S
    while mark.encode() not in exchange(front_end, DESCRIPTION)[2]:
        assert monotonic() < deadline, "the table has not come"


def test_who_says_the_same_gets_the_same(ask):
    first, second = ask(b"1", "X-Request-Id: a"), ask(b"1", "X-Request-Id: b")

    assert first == (200, "miss", b"0:1")
    assert second == (200, "hit", b"0:1")


def test_a_hit_has_the_headers_of_its_own_request(caching, ask):
    ask()
    _, headers, _ = exchange(caching, post(b"1", "X-Request-Id: mine"))

    assert (headers["x-request-id"], headers["content-type"]) == ("mine", "text/plain")
    assert "server-timing" not in headers
    assert headers["date"]


@pytest.mark.parametrize(
    "other",
    [
        pytest.param((b"2",), id="another body"),
        pytest.param((b"1", "Accept: text/plain"), id="another Accept"),
        pytest.param((b"1", "Content-Type: text/plain"), id="another Content-Type"),
        pytest.param((b"1", "X-User: ada"), id="another header that the service sees"),
    ],
)
def test_what_differs_is_another_request(caching, ask, other):
    renew(caching, interface=Interface(request_headers=["x-user"]))
    ask()

    assert ask(*other)[1] == "miss"
    assert ask()[1] == "hit"


def test_a_query_and_a_header_that_nobody_sees_are_not(ask):
    ask()

    assert ask(b"1", "X-User: ada", path="/echo/predict?a=b")[1] == "hit"


def test_a_parameter_that_the_service_asks_for_is_said_too(caching, ask):
    renew(caching, interface=Interface(request_query=["lang"]))
    ask(path="/echo/predict?lang=de")

    assert ask(path="/echo/predict?lang=fr")[1] == "miss"
    assert ask(path="/echo/predict?lang=de&x=1")[1] == "hit"
    assert ask(path="/echo/predict?lang=")[1] == "miss"
    assert ask()[1] == "miss"


@pytest.mark.parametrize(
    "response",
    [
        pytest.param((201, []), id="another status"),
        pytest.param((404, []), id="an error of the service's own"),
        pytest.param((200, [("Set-Cookie", "a=b")]), id="for one client"),
        pytest.param((200, [("X-A", "b"), ("cache-control", "no-store")]), id="as it says itself"),
    ],
)
def test_answers_that_are_not_kept(caching, ask, response):
    caching.worker.responses = {0: response}

    assert [ask()[1], ask()[1]] == ["miss", "miss"]


def test_headers_of_the_service_are_kept(caching, ask):
    caching.worker.responses = {0: (200, [("X-Model", "b")])}
    ask()

    assert exchange(caching, post(b"1"))[1]["x-model"] == "b"


def test_refusals_are_not_kept(caching, ask):
    caching.worker.answer = lambda _item: ("InputError", "", b'{"detail":"no"}')

    assert [ask()[:2], ask()[:2]] == [(422, None), (422, None)]


def test_a_refusal_leaves_nothing_to_the_next_request_of_its_connection(caching, ask):
    """What would have been its answer's place must not take the next one's."""
    good = caching.worker.answer
    caching.worker.answer = lambda _item: ("InputError", "", b'{"detail":"no"}')
    with caching.connect() as sock:
        sock.sendall(post(b"bad"))
        assert receive(sock)[0] == 422
        sock.sendall(b"GET /ping HTTP/1.1\r\nHost: a\r\n\r\n")
        assert "x-cache" not in receive(sock)[1]
    caching.worker.answer = good

    assert ask(b"bad")[1] == "miss"


@pytest.mark.parametrize("case", ["another size", "a new worker"])
def test_a_model_that_is_loaded_anew_begins_without(caching, ask, case):
    ask()
    if case == "another size":
        caching.publish(manifest={"cache": {"max_bytes": 5000, "ttl_s": 9}})
    else:
        row = ReplicaRow(0, 2, str(caching.worker.address), "starting")
        caching.publish(manifest=caching.row.manifest, replicas=[row])

    deadline = monotonic() + WAIT_S
    while ask()[2] == b"0:1":
        assert monotonic() < deadline, "the old answer is still given"


def test_each_version_has_a_cache(caching, ask):
    assert ask()[1:] == ("miss", b"0:1")
    second = ScriptedWorker(caching.run_dir / "second.sock")
    second.answer = lambda _item: ("", "text/plain", b"second")
    row = ReplicaRow(1, 1, str(second.address), "serving")
    caching.publish(manifest=caching.row.manifest, version="9", replicas=[row])
    deadline = monotonic() + WAIT_S
    while (found := ask())[2] == b"0:1":
        assert monotonic() < deadline, "the new version is not asked"

    assert found[1:] == ("miss", b"second")
    assert ask()[1:] == ("hit", b"second")
    renew(caching)
    assert ask()[1:] == ("miss", b"1:1")
    second.close()


def test_memory_is_bounded_and_what_was_used_stays(ask):
    for number in range(40):  # each takes half a kilobyte
        ask(b"%d" % number)
        ask(b"0")

    assert ask(b"0")[1] == "hit"
    assert ask(b"1")[1] == "miss"


def test_an_answer_over_the_limit_is_not_kept(caching, ask):
    caching.worker.answer = lambda _item: ("", "text/plain", b"x" * 20_000)

    assert [ask()[1], ask()[1]] == ["miss", "miss"]


def test_large_bodies_lie_in_shared_memory_and_are_let_go(caching, ask):
    body = b"x" * 10_000
    ask(body)

    for _ in range(20):  # there is room for five
        assert ask(body)[1] == "hit"


def test_what_is_kept_is_compressed_for_who_accepts_it(caching, ask):
    caching.worker.answer = lambda _item: ("", "text/plain", b"x" * 5000)
    _, first, packed = exchange(caching, post(b"1", "Accept-Encoding: gzip"))
    _, second, again = exchange(caching, post(b"1", "Accept-Encoding: gzip"))

    assert (first["x-cache"], second["x-cache"]) == ("miss", "hit")
    assert gzip.decompress(packed) == gzip.decompress(again) == b"x" * 5000
    assert ask()[1:] == ("hit", b"x" * 5000)


def test_an_answer_is_good_for_a_while(start):
    front_end = start()
    numbers = itertools.count()
    front_end.worker.answer = lambda _item: ("", "text/plain", b"%d" % next(numbers))
    renew(front_end, manifest={"cache": {"max_bytes": 20_000, "ttl_s": 0.2}})

    deadline = monotonic() + WAIT_S
    first = exchange(front_end, post(b"1"))[2]
    while exchange(front_end, post(b"1"))[2] == first:
        assert monotonic() < deadline, "the answer is still good"


def test_hits_and_misses_are_counted(caching, ask):
    def counted():
        (family,) = [
            each for each in collect(caching.counters, ECHO) if each.name == "servekit_cache_looks"
        ]
        return {sample.labels["result"]: sample.value for sample in family.samples}

    before = counted()
    ask(), ask(), ask()
    after = counted()

    assert (after["miss"] - before["miss"], after["hit"] - before["hit"]) == (1, 2)


def test_models_that_do_not_ask_have_none(caching, ask):
    renew(caching, manifest={})

    assert [ask()[1:], ask()[1:]] == [(None, b"0:1"), (None, b"1:1")]


def test_clients_of_different_identities_share_no_answer():
    route, keys = SimpleNamespace(asked=(), call=None), set()
    for identity in (None, Identity("ada"), Identity("bob"), Identity("bob", {"group": "x"})):
        request = HttpRequest(b"POST", b"/m/predict", {}, b"1", True, "1.1")
        request.identity = identity
        keys.add(_key(request, route))

    assert len(keys) == 4
