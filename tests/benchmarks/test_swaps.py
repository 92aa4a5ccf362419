# SPDX-License-Identifier: Apache-2.0
"""The program that replaces models under load counts what it says it counts."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.benchmarks.processes import wait_until
from tests.benchmarks.swaps.client import LATE, LOST, SwapAnswer, Users
from tests.benchmarks.swaps.figures import crossing, figures_of
from tests.benchmarks.swaps.report import words
from tests.benchmarks.swaps.subjects import Outcome
from tests.benchmarks.swaps.versions import WAYS, Version, sequence


class Stub(BaseHTTPRequestHandler):
    """Answers well, except three ids: they get no answer, an error, and a mix of versions."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        number = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if number == 5:
            self.close_connection = True
            return
        packed = "2" if number == 7 else "1"
        said = {"prediction": {"id": number, "loaded": "1", "packed": packed}}
        content = json.dumps(said).encode()
        self.send_response(503 if number == 3 else 200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


@contextmanager
def stub():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Stub)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


def outcome(name, way, *, is_served, began=100.0, said=""):
    return Outcome(Version(name, way), began, 1.0, is_served, said, [])


def test_errors_lost_connections_and_mixed_answers_are_seen():
    with stub() as port, Users(port) as users:
        assert wait_until(lambda: len(users.answers) > 20, seconds=20)
    by_status = {answer.status: answer for answer in users.answers}

    assert set(by_status) == {200, 503, LOST}
    assert [answer.is_mixed for answer in users.answers].count(True) == 1
    assert [answer.status for answer in users.answers].count(200) == len(users.answers) - 2


def test_the_figures_of_a_run():
    answers = [SwapAnswer(number, number + 0.01, 200, "1") for number in range(99)]
    answers += [
        SwapAnswer(101, 104, 200, "2", True),
        SwapAnswer(102, 102.1, 503),
        SwapAnswer(103, 103, LOST),
        SwapAnswer(103, 123, LATE),
        SwapAnswer(104, 104.5, 200, "4"),
    ]
    found = figures_of(
        answers, [outcome("2", "", is_served=True), outcome("4", "load", is_served=True)]
    )

    assert (found.other, found.lost, found.late, found.mixed, found.broken) == (
        {503: 1},
        1,
        1,
        1,
        1,
    )
    assert found.gap_s == pytest.approx(104 - 98.01)
    assert found.calm_p99_s == pytest.approx(0.01)
    assert found.p99_s == pytest.approx(3)
    assert (found.swapped, found.refused) == (1, 0)
    assert not found.is_clean


def test_the_bound_is_crossed_at_the_third_error_that_is_more_than_five_percent():
    def answers(*statuses):
        return [SwapAnswer(at, at, status, "2") for at, status in enumerate(statuses)]

    assert crossing(answers(500, 200, 500, 200, 500, 200)) == 4
    assert crossing(answers(*[200] * 60, 500, 500, 500)) is None


def test_every_third_new_version_is_broken_in_the_next_way():
    versions = sequence(20)

    assert len(versions) == 20
    assert [version.way for version in versions[2::3]] == list(WAYS)
    assert not any(version.way for version in versions[0::3] + versions[1::3])


def test_what_a_server_says_fits_into_a_table():
    assert words(outcome("4", "load", is_served=True)) == "**served**"
    assert words(outcome("4", "load", is_served=False, said="a |\n b")) == "a \\| b"
