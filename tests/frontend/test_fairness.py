# SPDX-License-Identifier: Apache-2.0
"""Clients that ask for much do not delay the health checks of others."""

import json
from contextlib import ExitStack
from pathlib import Path

from tests.waiting import wait_until

from .clients import paused, wait_until_arrived
from .conftest import receive
from .framing import GET

DESCRIPTION = b"GET /openapi.json HTTP/1.1\r\nHost: test\r\n\r\n"


def number(sock) -> int:
    """Return how many requests were begun before the one that is answered next."""
    return int(receive(sock)[1]["x-request-id"].rpartition("-")[2], 16)


def test_a_long_pipeline_leaves_others_their_turns(start):
    front_end = start()
    with front_end.connect() as greedy:
        greedy.sendall(GET)
        number(greedy)  # it has been accepted
        with paused(front_end):
            greedy.sendall(DESCRIPTION * 100)
            other = front_end.connect()
            other.sendall(GET)
            wait_until_arrived(other)
        with other:
            begun = number(other) - number(greedy)

    assert begun < 10


def test_views_of_many_clients_are_put_off_for_a_health_check(start, tmp_path):
    log = tmp_path / "access.jsonl"
    front_end = start(access_log=str(log))
    with ExitStack() as stack:
        many = [stack.enter_context(front_end.connect()) for _ in range(40)]
        last = stack.enter_context(front_end.connect())
        for sock in (*many, last):
            sock.sendall(GET)
            receive(sock)  # it has been accepted
        with paused(front_end):
            for sock in many:
                sock.sendall(DESCRIPTION)
                wait_until_arrived(sock)
            last.sendall(GET)
            wait_until_arrived(last)
        for sock in (*many, last):
            assert receive(sock)[0] == 200
    answered = 2 * (len(many) + 1)
    wait_until(lambda: len(log.read_text().splitlines()) == answered, "every answer is logged")

    paths = [json.loads(line)["path"] for line in Path(log).read_text().splitlines()]
    assert paths[len(many) + 1 :].index("/ping/live") < len(many) // 2
