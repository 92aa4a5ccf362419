# SPDX-License-Identifier: Apache-2.0
"""A real Prometheus evaluates the query that scales the rendered Deployment, under load."""

import http.client
import json
import shutil
import socket
import subprocess
import threading
from contextlib import ExitStack, closing
from urllib.parse import urlencode

import pytest
import yaml

from .manifests import documents, of_kind, quantity
from .stage import Stage, wait_until

PROMETHEUS = shutil.which("prometheus")
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(PROMETHEUS is None, reason="prometheus is not installed"),
]
WAIT_S = 90.0
WINDOW_S = 15  #: of the query, in place of a minute: a scrape takes place each second, not each 15
PREDICT_S = 0.25
SLOW_S = 40.0


class Scraper:
    """A Prometheus that scrapes the pods as the ServiceMonitor has it do."""

    def __init__(self, directory, pods, service):
        with socket.create_server(("127.0.0.1", 0)) as sock:
            self._address = f"127.0.0.1:{sock.getsockname()[1]}"
        targets = [
            {
                "targets": [f"{pod.address}:{pod.template.port}"],
                "labels": {"namespace": "default", "service": service, "pod": pod.name},
            }
            for pod in pods
        ]
        job = {"job_name": "servekit", "scrape_interval": "1s", "static_configs": targets}
        (directory / "prometheus.yml").write_text(yaml.safe_dump({"scrape_configs": [job]}))
        command = [PROMETHEUS, f"--config.file={directory}/prometheus.yml"]
        command += [f"--storage.tsdb.path={directory}/data"]
        command += [f"--web.listen-address={self._address}"]
        with (directory / "prometheus.log").open("w") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)

    def wait_ready(self):
        """Wait until it answers queries."""
        wait_until(lambda: self._get("/-/ready")[0] == 200, "Prometheus does not start")

    def value(self, query):
        """Return the value of *query*, or 0 if nothing matches."""
        status, body = self._get(f"/api/v1/query?{urlencode({'query': query})}")
        assert status == 200, body
        found = json.loads(body)["data"]["result"]
        numbers = [float(each["value"][1]) for each in found]
        assert len(numbers) <= 1, f"{query}: {found}"
        return sum(number for number in numbers if number == number)  # NaN: no batch, no time

    def _get(self, target):
        """Return status and body; 0 while nobody listens."""
        connection = http.client.HTTPConnection(self._address, timeout=60)
        try:
            connection.request("GET", target)
            answered = connection.getresponse()
            return answered.status, answered.read()
        except OSError:
            return 0, b""
        finally:
            connection.close()

    def stop(self):
        self._process.terminate()
        self._process.wait(WAIT_S)


@pytest.fixture
def queries(rendered):
    """The queries of KEDA and of the HPA, as they are rendered: of one pod, they are equal."""
    components = rendered.output / "components"
    scaled = of_kind(documents(components / "keda" / "scaled-object.yaml"), "ScaledObject")
    (adapter,) = documents(components / "hpa" / "prometheus-adapter.yaml")
    rule = adapter["rules"]["custom"][0]  # of the time in queue
    found = [
        scaled["spec"]["triggers"][0]["metadata"]["query"],
        rule["metricsQuery"]
        .replace("<<.LabelMatchers>>", 'namespace="default",pod=~"digits-.*"')
        .replace("<<.GroupBy>>", "pod"),
    ]
    assert all("[1m]" in query and "<<" not in query for query in found)
    return [query.replace("[1m]", f"[{WINDOW_S}s]") for query in found]


@pytest.fixture
def threshold(rendered):
    """What a pod may have, in seconds."""
    hpa = documents(rendered.output / "components" / "hpa" / "hpa.yaml")
    metrics = of_kind(hpa, "HorizontalPodAutoscaler")["spec"]["metrics"]
    return quantity(metrics[0]["pods"]["target"]["averageValue"])


def ask(pod, number, is_over=None):
    """Send one request after another until *is_over*; just one without it."""
    while True:
        connection = http.client.HTTPConnection(pod.address, pod.template.port, timeout=SLOW_S * 3)
        try:
            connection.request("POST", "/digits/predict", str(number),
                               {"Content-Type": "application/json"})  # fmt: skip
            connection.getresponse().read()
        finally:
            connection.close()
        if is_over is None or is_over.is_set():
            return


def running(pod):
    """Return how many requests workers have."""
    with closing(http.client.HTTPConnection(pod.address, pod.template.port, timeout=60)) as sent:
        sent.request("GET", "/metrics")
        text = sent.getresponse().read().decode()
    lines = [line for line in text.splitlines() if line.startswith("servekit_tasks_running{")]
    return sum(float(line.rpartition(" ")[2]) for line in lines)


def test_the_queries_rise_with_the_queue_and_fall_after_it(tmp_path, rendered, queries, threshold):
    template = rendered.version("busy", predict_s=PREDICT_S, slow_s=SLOW_S)
    with Stage(tmp_path, rendered, replicas=1, template=template) as stage, ExitStack() as stack:
        stage.wait_rolled_out()
        pod = stage.deployment.pods[0]
        scraper = Scraper(tmp_path, [pod], "digits")
        stack.callback(scraper.stop)
        scraper.wait_ready()

        def wait_high(wait_s):
            def is_high():
                return min(map(scraper.value, queries)) > 2 * threshold

            wait_until(is_high, "a query does not rise", within_s=wait_s)

        def wait_low():
            def is_low():
                return max(map(scraper.value, queries)) < threshold

            wait_until(is_low, "a query does not fall", within_s=WAIT_S)

        ask(pod, 1)
        wait_low()
        is_over = threading.Event()
        stack.callback(is_over.set)
        clients = start(ask, *((pod, number, is_over) for number in range(6)))
        wait_high(WAIT_S)
        is_over.set()
        join(clients)
        wait_low()

        stuck = start(ask, (pod, 99))
        wait_until(lambda: running(pod) == 1, "no worker has it")  # nothing finishes from now on
        waiting = start(ask, *((pod, number) for number in range(4)))
        wait_high(SLOW_S)
        assert stuck[0].is_alive()
        join(stuck + waiting)
        wait_low()


def start(target, *calls):
    threads = [threading.Thread(target=target, args=call) for call in calls]
    for thread in threads:
        thread.start()
    return threads


def join(threads):
    for thread in threads:
        thread.join()
