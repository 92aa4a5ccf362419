# SPDX-License-Identifier: Apache-2.0
"""``servekit bench`` as a program, against real servers."""

import json
import os
import signal
import subprocess
import sys

import pytest

from servekit.testing import ServedModel
from tests.waiting import WAIT_S, wait_until

from .scripted_server import ScriptedServer, answer, late

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
SERVICE = """
from servekit import Service

class Sum(Service):
    def predict(self, inputs):
        return [sum(each["x"]) for each in inputs]
"""
MODEL = """
name = "{name}"
service = "service:Sum"
[[examples]]
input = {{ x = [1, 2] }}
output = 3
"""


@pytest.fixture
def model(tmp_path):
    return write_model(tmp_path / "sum", "sum")


def write_model(directory, name):
    directory.mkdir()
    (directory / "service.py").write_text(SERVICE, encoding="utf-8")
    (directory / "model.toml").write_text(MODEL.format(name=name), encoding="utf-8")
    return directory


def command(*words):
    return [sys.executable, "-m", "servekit", "bench", "--warm-up", "0.2", *map(str, words)]


def bench(*words, status=0):
    done = subprocess.run(
        command("--duration", "2", *words), capture_output=True, text=True, timeout=240
    )
    assert done.returncode == status, done.stderr + done.stdout
    return done


def report(*words, status=0):
    return json.loads(bench("--json", *words, status=status).stdout)


def test_an_archive_is_served_and_its_examples_are_sent(model):
    found = report(model, "-c", "2")

    (target,) = found["targets"]
    assert target["url"].endswith("/sum/predict")
    assert target["inputs"] == 1
    assert target["rounds"][0]["statuses"].keys() == {"200"}
    assert target["rounds"][0]["requests_per_s"] > 0
    assert subprocess.run(["pgrep", "-f", str(model)], capture_output=True).stdout == b""


def test_a_running_server_says_what_to_send(model, tmp_path):
    with ServedModel(model, write_model(tmp_path / "b", "b")) as server:
        server.wait_ready()
        choice = bench(server.url, status=3)
        found = report(server.url, "--model", "b", "--rate", "50", "--arrivals", "constant")

    assert "models: b, sum" in choice.stderr
    (seen,) = found["targets"][0]["rounds"]
    assert seen["requests"] == pytest.approx(100, abs=2)
    assert seen["failed"] == 0


def test_a_server_at_a_unix_socket_and_one_with_a_token(model, tmp_path):
    token = tmp_path / "token"
    token.write_text("secret\n", encoding="utf-8")
    token.chmod(0o600)
    path = tmp_path / "socket"
    with ServedModel(model, bind=[f"unix:{path}"], predict_token_file=token) as server:
        server.log.wait_for("worker_ready")
        refused = bench(f"unix:{path}", "--path", "/sum/predict", status=3)
        found = report(f"unix:{path}", "--token-file", token)

    assert "401" in refused.stderr
    assert found["targets"][0]["rounds"][0]["failed"] == 0


def test_a_table_for_people(model):
    text = bench(model).stdout

    assert "closed loop, 8 connections, 2 s" in text
    assert "requests/s" in text
    assert "p99.9" in text


def test_failures_are_shown_with_their_first_message():
    def script(number):
        return [answer() if number < 5 else answer(b"queue full", "429 Too Many Requests")]

    with ScriptedServer(script) as server:
        url = f"http://127.0.0.1:{server.port}/a"
        text = bench(url, "-i", __file__, "-c", "1", status=1).stdout

    assert "failed, 429: queue full" in text


def test_a_server_that_refuses_the_input_is_not_measured():
    with ScriptedServer(lambda number: [answer(b"no x", "422 Unprocessable")]) as server:
        done = bench(f"http://127.0.0.1:{server.port}/a", "-i", __file__, status=3)

    assert "422: no x" in done.stderr


def test_a_path_without_examples_needs_an_input():
    with ScriptedServer(lambda number: [answer(b"{}", "404 Not Found")]) as server:
        done = bench(f"http://127.0.0.1:{server.port}/a", status=3)

    assert "give --input FILE" in done.stderr


def test_a_path_that_the_server_does_not_have_is_named():
    with ScriptedServer(lambda number: [answer(b'{"paths": {"/m/predict": {}}}')]) as server:
        done = bench(f"http://127.0.0.1:{server.port}/n/predict", status=3)

    assert "/n/predict: the server describes no such path; choose a model with" in done.stderr


def test_an_empty_path_is_an_error_of_one_line():
    done = bench("", status=3)

    assert done.stderr == "servekit: models: '': the path is empty\n"


def test_a_model_that_cannot_be_loaded_is_an_error(model):
    (model / "service.py").write_text("raise ValueError('broken')", encoding="utf-8")

    stderr = bench(model, status=3).stderr

    assert "broken" in stderr
    assert "loading" not in stderr


def test_ctrl_c_prints_what_was_measured():
    with ScriptedServer(late(0.001)) as server:
        url = f"http://127.0.0.1:{server.port}/a"
        process = subprocess.Popen(
            command(url, "-i", __file__, "--warm-up", "0", "--duration", "60", "--json"),
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        wait_until(lambda: len(server.requests) >= 100, "requests are sent")
        os.killpg(process.pid, signal.SIGINT)
        text, _ = process.communicate(timeout=WAIT_S)

    found = json.loads(text)
    assert process.returncode == 130
    assert found["was_stopped"]
    assert found["targets"][0]["rounds"][0]["requests"] > 0


def test_a_deadline_prints_what_was_measured():
    with ScriptedServer(late(0.001)) as server:
        url = f"http://127.0.0.1:{server.port}/a"
        found = report(url, "-i", __file__, "--duration", "60", "--deadline", "5", status=130)

    assert found["was_stopped"]
    assert found["targets"][0]["rounds"][0]["requests"] > 0


def test_a_report_is_written_as_one_file(tmp_path):
    file = tmp_path / "report.html"
    with ScriptedServer() as server:
        url = f"http://127.0.0.1:{server.port}/a"
        bench(url, "-i", __file__, "--html", file)
        nowhere = bench(url, "-i", __file__, "--html", tmp_path / "none" / "x", status=2)

    assert file.read_text(encoding="utf-8").count("<svg") == 4
    assert "--html" in nowhere.stderr


def test_two_servers_are_compared_in_alternating_rounds():
    with ScriptedServer(late(0.02)) as fast, ScriptedServer(late(0.5)) as slow:
        urls = [f"http://127.0.0.1:{each.port}/a" for each in (fast, slow)]
        found = report(*urls, "-i", __file__, "--rounds", "4", "-c", "1", "--duration", "1")

    verdicts = {each["figure"]: each["verdict"] for each in found["comparison"]["differences"]}
    assert [len(each["rounds"]) for each in found["targets"]] == [4, 4]
    assert verdicts["p50"] == "higher"


def test_one_archive_with_two_settings(model):
    words = (model, model, "--other-set", "sum.replicas=2", "--rounds", "1")

    text = bench(*words, "--rate", "20").stdout

    assert "sum (other) against" in text
    assert "p50: too few rounds" in text


def test_the_saturation_of_a_server(tmp_path):
    file = tmp_path / "report.html"
    with ScriptedServer(late(0.02)) as server:
        url = f"http://127.0.0.1:{server.port}/a"
        words = (url, "-i", __file__, "--saturation", "--deadline", "8", "--html", file)
        found = report(*words, "--duration", "0.5", "--warm-up", "0", status=130)
        nonsense = bench(url, "--saturation", "--rate", "9", status=3)

    assert found["saturation"]["capacity"]["requests_per_s"] > 40
    assert "<svg" in file.read_text(encoding="utf-8")
    assert "--saturation" in nonsense.stderr
