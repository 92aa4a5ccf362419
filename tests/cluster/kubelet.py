# SPDX-License-Identifier: Apache-2.0
"""What a kubelet does for one pod: it starts, probes, restarts and ends its container."""

import http.client
import signal
import threading
from collections.abc import Mapping
from pathlib import Path
from time import monotonic
from typing import Any

from .container import Container, Setting
from .image import Image
from .manifests import PodTemplate, Probe
from .node import Network

FIRST_BACKOFF_S = 10.0  #: before the second restart; the first one comes at once
POLL_S = 0.02


class Pod:
    """A pod on this node. Its state is that of the API: any thread may read it."""

    def __init__(
        self,
        name: str,
        template: PodTemplate,
        image: Image,
        network: Network,
        directory: Path,
        links: Mapping[str, str],
    ) -> None:
        """Start it.

        :param links: the variables for the Services of its namespace.
        """
        self.name, self.template, self._image = name, template, image
        self._network = network
        self._namespace, self.address = network.add()
        self._directory = directory / name
        self._directory.mkdir()
        self._links = links if template.has_service_links else {}
        self._deleted = threading.Event()
        self.is_ready = False
        self.is_gone = False
        self.restarts: list[str] = []  #: why
        self.exits: list[int] = []  #: the status of each container that has ended
        self.was_killed = False  #: it did not end within its grace
        self.ended_after_s = 0.0  #: from the deletion on
        self.ready_after_s = 0.0  #: from the start on
        self._began = monotonic()
        self.container: Container | None = None
        self._thread = threading.Thread(target=self._run, name=name)
        self._thread.start()

    @property
    def is_terminating(self) -> bool:
        """Whether it was deleted."""
        return self._deleted.is_set()

    @property
    def url(self) -> str:
        """The URL of its port ``http``."""
        return f"http://{self.address}:{self.template.port}"

    @property
    def log(self) -> str:
        """What its container has printed, the newest one."""
        return self.container.text if self.container else ""

    def delete(self) -> None:
        """Begin to end it, as ``kubectl delete`` does."""
        self.is_ready = False  # the endpoints take notice of it in the same moment
        self._deleted.set()

    def join(self, timeout_s: float) -> None:
        """Wait until it is gone."""
        self._thread.join(timeout_s)
        assert self.is_gone, f"{self.name} is not gone after {timeout_s} s\n{self.log}"

    # ------------------------------------------------------------ its life

    def _run(self) -> None:
        try:  # containers end with the thread that starts them
            self.container, backoff_s = self._start(), 0.0
            while not self._deleted.is_set():
                reason = self._watch()
                if reason:
                    self.is_ready = False
                    self._end(self.template.grace_s)
                    self.restarts.append(reason)
                    if self._deleted.wait(backoff_s):
                        break
                    backoff_s = 2 * backoff_s or FIRST_BACKOFF_S
                    self.container = self._start()
            self._terminate()
        finally:
            if self.container is not None:
                self.container.remove()
            self._network.remove(self._namespace)
            self.is_gone = True

    def _watch(self) -> str:
        """Return why the container must be started again; "" if the pod is deleted."""
        with Probes(self) as probes:
            while not self._deleted.wait(POLL_S):
                if (status := self.container.exit_status) is not None:
                    return f"exit status {status}"
                if probes.failed:
                    return f"{probes.failed} probe"
        return ""

    def _terminate(self) -> None:
        """Run the hook, send SIGTERM, and kill what is left after the grace."""
        began, template = monotonic(), self.template
        if self.container.exit_status is None:
            self.container.wait(min(template.pre_stop_s, template.grace_s))
            self.was_killed = self._end(began + template.grace_s - monotonic())
        self.ended_after_s = monotonic() - began

    def _end(self, grace_s: float) -> bool:
        """End the container; return whether it had to be killed."""
        self.container.signal(signal.SIGTERM)
        was_killed = not self.container.wait(grace_s)
        self.container.remove()
        self.exits.append(self.container.exit_status or 0)
        return was_killed

    def _start(self) -> Container:
        number = len(self.restarts)
        directory = self._directory / str(number)
        directory.mkdir()
        env = {"HOSTNAME": self.name, **self._links, **self._image.env}
        for variable in self.template.env:
            env[variable["name"]] = _expand(self._value(variable), env)
        name = f"servekit-{self._namespace}-{number}"
        setting = Setting(name=name, namespace=self._namespace, directory=directory, env=env)
        return Container(self.template, self._image, setting)

    def _value(self, variable: dict[str, Any]) -> str:
        """Return the value of a variable; the downward API knows what the others are."""
        if "valueFrom" not in variable:
            return str(variable.get("value", ""))
        known = {
            "metadata.name": self.name,
            "metadata.namespace": "default",
            "status.podIP": self.address,
            "spec.nodeName": "node-1",
            "limits.memory": str(self.template.memory_bytes),
            **{f"metadata.labels['{name}']": at for name, at in self.template.labels.items()},
        }
        (reference,) = variable["valueFrom"].values()
        return known[reference.get("fieldPath") or reference["resource"]]

    def on_ready(self, is_ready: bool) -> None:
        """Take notice of the readiness probe."""
        if is_ready and not self.ready_after_s:
            self.ready_after_s = monotonic() - self._began
        self.is_ready = is_ready and not self._deleted.is_set()


class Probes:
    """The probes of one container, each in a thread; ``failed`` is the kind that ends it."""

    def __init__(self, pod: Pod) -> None:
        """Start none yet."""
        self._pod = pod
        self._is_over = threading.Event()
        self._is_started = threading.Event()
        self.failed = ""
        self._threads = [
            threading.Thread(target=self._repeat, args=(kind, probe))
            for kind, probe in pod.template.probes.items()
        ]
        if "startup" not in pod.template.probes:
            self._is_started.set()
        if "readiness" not in pod.template.probes:
            pod.on_ready(True)

    def __enter__(self) -> "Probes":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._is_started.set()
        for thread in self._threads:
            thread.join()

    def _repeat(self, kind: str, probe: Probe) -> None:
        if kind != "startup":
            self._is_started.wait()
        self._is_over.wait(probe.initial_delay_s)
        results: list[bool] = []
        while not self._is_over.is_set():
            results.append(is_healthy(self._pod.address, probe))
            if self._is_over.is_set() or self._act(kind, probe, results):
                return
            self._is_over.wait(probe.period_s)

    def _act(self, kind: str, probe: Probe, results: list[bool]) -> bool:
        """Draw the conclusion from the last results; return whether this probe is done."""
        has_failed = not any(results[-probe.failures :]) and len(results) >= probe.failures
        is_good = all(results[-probe.successes :]) and len(results) >= probe.successes
        if kind == "readiness":
            if has_failed or is_good:
                self._pod.on_ready(is_good)
        elif has_failed:
            self.failed = kind
        elif kind == "startup" and is_good:
            self._is_started.set()
        return bool(self.failed) or (kind == "startup" and is_good)


def is_healthy(address: str, probe: Probe) -> bool:
    """Return whether one request of *probe* is answered well, in time."""
    connection = http.client.HTTPConnection(address, probe.port, timeout=probe.timeout_s)
    try:
        connection.request("GET", probe.path, headers={"User-Agent": "kube-probe/1.31"})
        return 200 <= connection.getresponse().status < 400
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _expand(text: str, env: Mapping[str, str]) -> str:
    for name, value in env.items():
        text = text.replace(f"$({name})", value)
    return text
