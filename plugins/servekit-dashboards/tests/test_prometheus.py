# SPDX-License-Identifier: Apache-2.0
"""A real Prometheus scrapes a real server under load, and answers the query of every panel."""

import http.client
import json
import re
import shutil
import subprocess
import sys
import threading
from functools import partial
from time import time
from urllib.parse import urlencode, urlsplit

import pytest
from servekit_dashboards.files import DASHBOARDS, Targets, files

import servekit
from tests import waiting
from tests.processes import free_port

PROMETHEUS = shutil.which("prometheus")
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.skipif(PROMETHEUS is None, reason="prometheus is not installed"),
]
WAIT_S = 180.0
wait_until = partial(waiting.wait_until, within_s=WAIT_S, every_s=0.2)
#: panels that stay empty here, for the reason that they show themselves
EMPTY = {"Jobs", "Mirrored requests"}

PLAIN = """
import os
from servekit import Service

class Plain(Service):
    def predict(self, batch):
        if "die" in batch:
            os._exit(1)
        if "fail" in batch:
            raise ValueError
        return batch
"""
STORY = """
from collections.abc import Iterator
from servekit import Service

class Story(Service):
    def stream(self, text: str) -> Iterator[str]:
        yield from text.split()
"""
STAGES = """
from servekit import Service

class Echo(Service):
    def predict(self, batch):
        return batch
"""
MODELS = {
    "plain": (PLAIN, 'service = "service:Plain"\n[cache]\nmax_bytes = 1000\nttl_s = 0.5\n'),
    "story": (STORY, 'service = "service:Story"\n[batching]\nmax_batch_size = 4\n'),
    "steps": (
        STAGES,
        'pipeline = ["one", "two"]\n[stages]\n'
        + "".join(f'{stage} = {{ service = "service:Echo" }}\n' for stage in ("one", "two")),
    ),
}
REQUESTS = (("plain", "1"), ("plain", '"fail"'), ("steps", "2"), ("story", '"a b c"'))
ANY = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Yield the address and the process id of a server that is asked all the time."""
    root, models = tmp_path_factory.mktemp("models"), {}
    for name, (service, settings) in MODELS.items():
        directory = root / name
        directory.mkdir()
        (directory / "service.py").write_text(service)
        (directory / "model.toml").write_text(f'name = "{name}"\nversion = "1.0"\n{settings}')
        models[name] = directory
    with pytest.MonkeyPatch.context() as patch:  # servekit-journal samples every request
        patch.setenv("JOURNAL_FILE", str(root / "journal"))
        patch.setenv("JOURNAL_ALSO", "traces")
        patch.setenv("JOURNAL_TRACES", "1")
        started = servekit.serve(models, block=False, port=0, replicas=1)
    with started as running:
        address, is_over = urlsplit(running.url).netloc, threading.Event()
        clients = [
            threading.Thread(target=ask_until, args=(is_over, address, f"/{name}/predict", body))
            for name, body in REQUESTS
        ]
        for client in clients:
            client.start()
        try:
            yield address, running.pid
        finally:
            is_over.set()
            for client in clients:
                client.join()


def ask_until(is_over, address, path, body):
    while not is_over.wait(0.05):
        post(address, path, body)


def post(address, path, body):
    connection = http.client.HTTPConnection(address, timeout=WAIT_S)
    try:
        connection.request("POST", path, body, ANY)
        connection.getresponse().read()
    except http.client.RemoteDisconnected:  # the model was killed
        pass
    finally:
        connection.close()


class Prometheus:
    """A Prometheus with the files of the command; it scrapes each second."""

    def __init__(self, directory, target):
        self.address = f"127.0.0.1:{free_port()}"
        for path, text in files(Targets("servekit", [target])).items():
            (directory / path).parent.mkdir(parents=True, exist_ok=True)
            (directory / path).write_text(text.replace("_interval: 15s", "_interval: 1s"))
        self.log = (directory / "log").open("w")
        self.process = subprocess.Popen(
            [
                PROMETHEUS,
                f"--config.file={directory / 'prometheus.yml'}",
                f"--storage.tsdb.path={directory / 'data'}",
                f"--web.listen-address={self.address}",
                "--enable-feature=exemplar-storage",
            ],
            stdout=self.log,
            stderr=subprocess.STDOUT,
        )

    def get(self, path, **query):
        connection = http.client.HTTPConnection(self.address, timeout=WAIT_S)
        try:
            connection.request("GET", f"/api/v1/{path}?{urlencode(query)}")
            answer = json.loads(connection.getresponse().read())
        finally:
            connection.close()
        assert answer["status"] == "success", answer
        return answer["data"]

    def result(self, expr):
        return self.get("query", query=expr)["result"]

    def stop(self):
        self.process.terminate()
        self.process.wait(WAIT_S)
        self.log.close()


@pytest.fixture(scope="module")
def prometheus(server, tmp_path_factory):
    address, pid = server
    found = Prometheus(tmp_path_factory.mktemp("prometheus"), address)
    try:
        wait_until(lambda: is_up(found), "Prometheus does not reach the server")
        post(address, "/plain/predict", '"die"')
        operate("scale", "plain", "2", "--pid", str(pid))
        operate("reload", "--pid", str(pid))
        yield found
    finally:
        found.stop()


def operate(*arguments):
    command = [sys.executable, "-m", "servekit", *arguments]
    subprocess.run(command, check=True, capture_output=True, timeout=WAIT_S)


def is_up(prometheus):
    assert prometheus.process.poll() is None, "Prometheus has ended"
    try:
        return any(each["value"][1] == "1" for each in prometheus.result("up"))
    except (OSError, ValueError, http.client.HTTPException):  # it starts
        return False


def filled(expr):
    """Return *expr* with the values of the variables: all of them."""
    expr = expr.replace("$__rate_interval", "10s").replace("$job", "servekit")
    expr = re.sub(r"\$(instance|model|version)", ".*", expr)
    assert "$" not in expr
    return expr


def numbers(result):
    return [each for each in result if each["value"][1] != "NaN"]


PANELS = [(each, panel) for each in DASHBOARDS for panel in each.panels]


@pytest.mark.parametrize(
    ("dashboard", "panel"), PANELS, ids=[f"{each.uid}: {panel.title}" for each, panel in PANELS]
)
def test_every_query_of_a_panel_has_a_result(dashboard, panel, prometheus):
    exprs = [filled(query.expr) for query in panel.queries]
    if panel.title in EMPTY:
        assert panel.empty
        assert not any(prometheus.result(expr) for expr in exprs)
        return
    wait_until(
        lambda: all(numbers(prometheus.result(expr)) for expr in exprs),
        f"{dashboard.title}: {panel.title}: no result of {exprs}",
    )


def test_the_values_of_variables_are_found(prometheus):
    for query, expected in (
        ('servekit_build_info{job="servekit"}', None),
        ('servekit_replicas{model=~".*"}', {"plain", "story", "steps"}),
    ):
        found = prometheus.result(query)
        assert found
        assert expected is None or {each["metric"]["model"] for each in found} == expected


def test_rules_are_evaluated_and_a_crash_is_an_alert(prometheus):
    def crashed():
        alerts = prometheus.get("alerts")["alerts"]
        return [each for each in alerts if each["labels"]["alertname"] == "ServekitWorkersCrash"]

    def health():
        groups = prometheus.get("rules")["groups"]
        return {rule["health"] for group in groups for rule in group["rules"]}

    alert, *_ = wait_until(crashed, "no alert fires")
    wait_until(lambda: health() == {"ok"}, "some rules have not been evaluated, or fail")
    rate = "model:servekit_requests:rate5m"
    wait_until(lambda: numbers(prometheus.result(rate)), f"there is no {rate}")

    assert alert["annotations"]["summary"] == "workers of plain crashed: exited"


def test_exemplars_lead_from_a_bucket_to_the_trace_of_a_request(prometheus):
    def found():
        series = "servekit_request_duration_seconds_bucket"
        return prometheus.get("query_exemplars", query=series, start=time() - 60, end=time() + 60)

    wait_until(found, "there are no exemplars")
    for each in found():
        for exemplar in each["exemplars"]:
            assert re.fullmatch("[0-9a-f]{32}", exemplar["labels"]["trace_id"])
            assert float(exemplar["value"]) <= float(each["seriesLabels"]["le"])
