# SPDX-License-Identifier: Apache-2.0
"""Several servers: which one gets a call, which ones rest, and what is tried elsewhere."""

import asyncio
import errno
import itertools
import json
import socket
import threading
from collections import Counter
from contextlib import ExitStack

import httpx
import pytest
from servekit_client import (
    AsyncClient,
    Client,
    ConnectionRefused,
    DeadlineExceeded,
    Discovery,
    DnsDiscovery,
    FileDiscovery,
    InputError,
    QueueFull,
    ServiceError,
    Unavailable,
    Unreachable,
)
from servekit_client import servers as servers_module
from servekit_client.calls import CallBuilder, transport_errors
from servekit_client.servers import FAILURES, LONGEST_REST_S, Servers

from tests.waiting import wait_until

from .conftest import WAIT_S, answer

A, B, C = (f"http://{name}:8080" for name in "abc")
OK = answer(body=b'{"prediction": 3}')


@pytest.fixture
def clock(monkeypatch):
    """The time that servers know; it stands still."""

    class Clock:
        now = 1000.0

    monkeypatch.setattr(servers_module, "monotonic", lambda: Clock.now)
    return Clock


@pytest.fixture
def unused():
    """The URL of a port where nobody listens, and nobody else will."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"


def test_the_server_with_the_fewest_calls_is_next():
    servers = Servers([A, B, C])
    leases = [servers.lease() for _ in range(9)]

    assert Counter(lease.url for lease in leases) == {A: 3, B: 3, C: 3}
    for lease in leases:
        if lease.url == B:
            lease.end()
            lease.end()  # counts once
    assert [servers.lease().url for _ in range(3)] == [B] * 3


def test_idle_servers_get_calls_alike():
    servers = Servers([A, B])
    found = Counter()
    for _ in range(400):
        with servers.lease() as lease:
            found[lease.url] += 1

    assert min(found.values()) > 100


@pytest.mark.parametrize(
    ("error", "count"),
    [
        pytest.param(ConnectionRefused(), 1, id="nobody listens"),
        pytest.param(Unreachable(), FAILURES, id="broken connections"),
        pytest.param(Unavailable(status=503), FAILURES, id="no workers"),
        pytest.param(DeadlineExceeded(), FAILURES, id="no answers"),
    ],
)
def test_a_server_in_trouble_rests_longer_and_longer(clock, error, count):
    servers = Servers([A, B])
    for _ in range(count):
        assert servers.lease(avoided=[B]).url == A
        servers.lease(only=A).end(error)
    for lease in [servers.lease() for _ in range(5)]:
        assert lease.url == B
        lease.end()
    rests = []
    for _ in range(8):
        began = clock.now
        while not servers.has_other([B]):
            clock.now += 0.5
        rests.append(clock.now - began)
        servers.lease(avoided=[B]).end(error)

    assert rests[:3] == [1.0, 2.0, 4.0]
    assert max(rests) == LONGEST_REST_S


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(InputError(status=422), id="422"),
        pytest.param(QueueFull(status=429), id="429"),
        pytest.param(ServiceError(status=500), id="500"),
        pytest.param(DeadlineExceeded(status=504), id="504"),
    ],
)
def test_errors_of_requests_are_not_held_against_the_server(error):
    servers = Servers([A, B])
    for _ in range(10):
        servers.lease(only=A).end(error)

    assert servers.has_other([B])


def test_a_call_that_is_cancelled_says_nothing_about_the_server(scripted):
    """Otherwise a server that hangs would never rest, if calls to it are cancelled now and then."""
    server = scripted(lambda connection: connection.recv(1))

    async def run():
        async with AsyncClient([server.url, B]) as client:
            servers = client._servers
            for _ in range(FAILURES - 1):
                servers.lease(only=server.url).end(DeadlineExceeded())
            servers._servers[B].calls += 1  # so the other one is asked
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(client.predict("m", 1), 0.2)
            had_rest = not servers.has_other([B])
            servers.lease(only=server.url).end(DeadlineExceeded())
            return had_rest, not servers.has_other([B])

    assert asyncio.run(run()) == (False, True)


def test_one_call_finds_out_whether_a_server_answers_again(clock):
    servers = Servers([A, B])
    servers.lease(only=A).end(ConnectionRefused())
    clock.now += 1.5
    probe = servers.lease(avoided=[B])

    assert probe.url == A
    assert {servers.lease(avoided=[B]).url for _ in range(3)} == {B}
    probe.end()
    assert servers.lease(avoided=[B]).url == A


def test_if_all_rest_the_one_that_rested_longest_is_asked(clock):
    servers = Servers([A, B])
    servers.lease(only=A).end(ConnectionRefused())
    clock.now += 0.5
    servers.lease(only=B).end(ConnectionRefused())

    assert servers.lease().url == A


@pytest.mark.parametrize("given", [[], ["ftp://a"], "a:8080"])
def test_what_is_not_a_url(given):
    with pytest.raises(ValueError, match="url: "):
        Servers(given)


# ------------------------------------------------------------ calls


def test_a_closed_port_is_no_failure_while_another_server_answers(call, scripted, unused, waits):
    server = scripted(OK)

    assert call([unused, server.url], "predict", "m", 1, retries=0) == 3
    assert not any(waits)


@pytest.fixture
def silent():
    """The URL of a machine that drops every SYN, as one that is gone does."""
    with socket.socket() as sock, ExitStack() as filling:
        sock.bind(("127.0.0.1", 0))
        sock.listen(0)
        for _ in range(2):  # the backlog is full
            filler = filling.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(sock.getsockname())
        yield f"http://127.0.0.1:{sock.getsockname()[1]}"


def test_a_machine_that_is_gone_is_no_failure_while_a_server_answers(
    call, scripted, silent, monkeypatch
):
    monkeypatch.setattr("servekit_client.calls.CONNECT_S", 1.0)

    assert call([silent, scripted(OK).url], "predict", "m", 1, retries=0) == 3


def test_a_call_to_a_machine_that_is_gone_ends_at_its_deadline(call, silent):
    with pytest.raises(DeadlineExceeded):
        call(silent, "predict", "m", 1, timeout_s=0.2)


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        pytest.param(errno.EHOSTUNREACH, ConnectionRefused, id="no route to the machine"),
        pytest.param(errno.EMFILE, Unreachable, id="no descriptors are left here"),
    ],
)
def test_what_kept_a_connection_from_being_made_decides_if_it_is_tried_again(number, kind):
    made = CallBuilder(None, compress=False).get("m")
    with pytest.raises(Unreachable) as caught, transport_errors(made, A):
        raise httpx.ConnectError("said by httpx") from OSError(number, "said by the kernel")

    assert type(caught.value) is kind


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_server_is_not_waited_for(call, scripted, waits, status):
    busy, idle = scripted(answer(status, Retry_After=1)), scripted(OK)

    assert call([busy.url, idle.url], "predict", "m", 1, retries=0) == 3
    assert not any(waits)


def test_all_are_tried_before_it_waits(call, scripted, waits):
    busy = answer(429, Retry_After=1)
    servers = scripted(busy, OK), scripted(busy, OK)

    assert call([each.url for each in servers], "predict", "m", 1) == 3
    assert [bool(wait) for wait in waits] == [False, True]
    assert sum(len(each.asked) for each in servers) == 3


def test_a_lost_connection_is_not_tried_elsewhere(call, scripted):
    servers = scripted(b"", b""), scripted(b"", b"")
    with pytest.raises(Unreachable):
        call([each.url for each in servers], "predict", "m", 1)

    assert sum(len(each.asked) for each in servers) == 1


def test_a_stream_counts_until_it_ends(scripted):
    events = b"data: 1\n\ndata: 2\n\nevent: end\ndata: {}\n\n"
    stream = answer(body=events, content_type="text/event-stream")
    with Client([scripted(stream).url, scripted(stream).url]) as client:
        first = client.stream("m", 1)
        assert next(first) == 1
        second = client.stream("m", 1)
        assert next(second) == 1  # the other server: each has an answer for one connection
        assert [*first, *second] == [2, 2]


class Late:
    """Answers when it is told to, or when so many are asked at once."""

    def __init__(self):
        self.go_on = threading.Event()
        self.enough = 0
        self._asked = itertools.count(1)

    def __call__(self, connection):
        if next(self._asked) == self.enough:
            self.go_on.set()
        self.go_on.wait(WAIT_S)
        connection.sendall(answer(body=b'{"prediction": 1}'))


@pytest.fixture
def late():
    told = Late()
    yield told
    told.go_on.set()


def test_a_second_server_is_asked_if_the_first_is_late(call, scripted, late):
    slow = [scripted(late), scripted(late)]
    late.enough = 2

    assert call([each.url for each in slow], "predict", "m", 1, hedge_after_s=0.1) == 1
    assert late.go_on.is_set()
    assert [len(each.asked) for each in slow] == [1, 1]


def test_an_answer_in_time_asks_nobody_else(call, scripted):
    servers = scripted(OK, OK), scripted(OK, OK)

    assert call([each.url for each in servers], "predict", "m", 1, hedge_after_s=20) == 3
    assert sum(len(each.asked) for each in servers) == 1


def test_a_hedged_call_takes_the_answer_that_comes(call, scripted, unused, late):
    server = scripted(late)
    threading.Timer(0.5, late.go_on.set).start()

    assert call([unused, server.url], "predict", "m", 1, hedge_after_s=0.05) == 1


def test_the_other_call_of_a_hedge_is_dropped(scripted):
    has_left = threading.Event()

    def wait_for_the_end(connection):
        if connection.recv(1) == b"":
            has_left.set()

    slow, quick = scripted(wait_for_the_end), scripted(OK)

    async def run():
        async with AsyncClient([slow.url, quick.url], hedge_after_s=0.1) as client:
            client._servers._servers[quick.url].calls += 1  # so the slow one is asked first
            return await client.predict("m", 1)

    assert asyncio.run(run()) == 3
    assert has_left.wait(WAIT_S)


# ------------------------------------------------------------ discovery


def test_servers_in_a_file_come_and_go(tmp_path, clock):
    path = tmp_path / "servers.json"
    path.write_text(json.dumps([A]))
    servers = Servers(FileDiscovery(path))
    kept = servers.lease()
    assert kept.url == A
    path.write_text(json.dumps([A, B]))
    clock.now += 2
    servers.lease().end()
    wait_until(lambda: servers.urls == [A, B], "both servers are known")
    assert servers.lease().url == B  # the other one still has a call
    wait_until(lambda: not servers._is_looking, "the look ends")
    path.write_text("not JSON")
    clock.now += 2
    servers.lease().end()
    wait_until(lambda: not servers._is_looking, "the look ends")

    assert servers.urls == [A, B]


@pytest.mark.parametrize("text", ["5", '"http://a:1"', '{"a": 1}', '["a:1"]', "[null]"])
def test_a_file_without_a_list_says_so(text, tmp_path):
    path = tmp_path / "servers.json"
    path.write_text(text)

    with pytest.raises(OSError, match=r"servers\.json: not a JSON list of URLs"):
        FileDiscovery(path).urls()


def test_all_calls_wait_for_the_first_look():
    go_on = threading.Event()

    class Slow(Discovery):
        def urls(self):
            go_on.wait(WAIT_S)
            return [A]

    servers, found = Servers(Slow()), []
    threads = [threading.Thread(target=lambda: found.append(servers.lease().url)) for _ in range(4)]
    for thread in threads:
        thread.start()
    go_on.set()
    for thread in threads:
        thread.join(WAIT_S)

    assert found == [A] * 4


def test_servers_are_looked_for_soon_if_one_is_gone(clock):
    class Moved(Discovery):
        every_s = 1000.0
        found = A

        def urls(self):
            return [self.found]

    servers = Servers(Moved())
    lease = servers.lease()
    Moved.found = B
    lease.end(ConnectionRefused())
    clock.now += 0.5  # not at once: others may find out, too
    servers.lease().end()
    assert servers.urls == [A]
    clock.now += 1.0
    servers.lease().end()

    wait_until(lambda: servers.urls == [B], "the change is seen")


def test_every_address_of_a_name_is_a_server(monkeypatch):
    def look_up(host, port, **_):
        assert host == "models.default.svc"
        kinds = [("10.0.0.7", port), ("10.0.0.8", port), ("fd00::1", port, 0, 0)]
        return [(None, None, None, "", at) for at in kinds]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    found = DnsDiscovery("http://models.default.svc:8080/x/").urls()

    assert found == [
        "http://10.0.0.7:8080/x", "http://10.0.0.8:8080/x", "http://[fd00::1]:8080/x"
    ]  # fmt: skip


def test_a_name_in_the_dns_needs_http():
    with pytest.raises(ValueError, match="is not http://NAME:PORT"):
        DnsDiscovery("https://models.default.svc")


def test_no_server_is_found(call):
    class Nothing(Discovery):
        def urls(self):
            raise OSError("no answer")

    with pytest.raises(Unreachable, match="not found"):
        call(Nothing(), "predict", "m", 1)
