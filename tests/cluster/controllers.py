# SPDX-License-Identifier: Apache-2.0
"""What the controllers of a cluster do: a Deployment's rollout, evictions, endpoints."""

import json
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from time import monotonic

from .image import Image
from .kubelet import Pod
from .manifests import PodTemplate, Rollout
from .node import Network

STEP_S = 0.05


class Endpoints:
    """The addresses of a Service; clients see each change later, as in a real cluster."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._history: list[tuple[float, tuple[str, ...]]] = [(0.0, ())]
        self._views: list[tuple[float, Callable[[tuple[str, ...]], None]]] = []
        self._seen: dict[int, tuple[str, ...]] = {}

    def show(self, path: Path, *, host: str = "", lag_s: float) -> Path:
        """Keep the file at *path* up to date, each change *lag_s* late.

        :param host: write lines of ``/etc/hosts`` for this name; else a JSON list of URLs.
        """

        def write(addresses: tuple[str, ...]) -> None:
            hosts = "".join(f"{address} {host}\n" for address in addresses)
            urls = json.dumps([f"http://{address}:{self.port}" for address in addresses])
            path.write_text(f"127.0.0.1 localhost\n{hosts}" if host else urls)

        write(())
        self._views.append((lag_s, write))
        return path

    def update(self, addresses: tuple[str, ...]) -> None:
        """Take note of a change, and pass on those whose time has come."""
        now = monotonic()
        if addresses != self._history[-1][1]:
            self._history.append((now, addresses))
        for number, (lag_s, write) in enumerate(self._views):
            visible = [each for at, each in self._history if at <= now - lag_s][-1]
            if visible != self._seen.get(number, ()):
                self._seen[number] = visible
                write(visible)


class TooManyDisruptions(Exception):
    """A PodDisruptionBudget forbids the eviction for now: the API answers 429."""


class Deployment:
    """Keeps pods of the newest template; a change of it is rolled out. Its own thread does so."""

    def __init__(
        self,
        name: str,
        template: PodTemplate,
        strategy: Rollout,
        *,
        images: Mapping[str, Image],
        network: Network,
        directory: Path,
        disruptions: int = 1,
        links: Mapping[str, str] | None = None,
    ) -> None:
        """Start the pods.

        :param disruptions: how many may be evicted at once.
        """
        self._name, self._strategy, self._images = name, strategy, images
        self._network, self._directory, self._links = network, directory, links or {}
        self._disruptions = disruptions
        self._lock = threading.RLock()
        self._template = template
        self.pods: list[Pod] = []  #: all that there ever were
        self.fewest_ready = strategy.replicas  #: since ``watch`` was called
        self.most_pods = 0
        self.endpoints = Endpoints(template.port)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._repeat)
        self._thread.start()

    def update(self, template: PodTemplate) -> None:
        """Roll out *template*."""
        with self._lock:
            self._template = template

    def watch(self) -> None:
        """Begin to count anew how few pods were ready, and how many there were."""
        self.fewest_ready, self.most_pods = self._strategy.replicas, 0

    def evict(self, pod: Pod) -> None:
        """Delete *pod* by the API of evictions.

        :raises TooManyDisruptions: the budget of this Deployment allows no more.
        """
        with self._lock:
            needed = self._strategy.replicas - self._disruptions
            if len(self.ready) - pod.is_ready < needed:
                raise TooManyDisruptions(pod.name)
            pod.delete()
            self._publish()

    @property
    def alive(self) -> list[Pod]:
        """The pods that were not deleted."""
        return [pod for pod in self.pods if not pod.is_terminating]

    @property
    def ready(self) -> list[Pod]:
        """The pods that get requests."""
        return [pod for pod in self.alive if pod.is_ready]

    @property
    def is_rolled_out(self) -> bool:
        """Whether all pods are of the newest template, ready, and the others gone."""
        current = [pod for pod in self.ready if pod.template == self._template]
        left = [pod for pod in self.pods if not pod.is_gone]
        return len(current) == self._strategy.replicas == len(left)

    def close(self) -> None:
        """Delete all pods, and wait until they are gone."""
        self._is_over.set()
        self._thread.join()
        for pod in self.alive:
            pod.delete()
        for pod in self.pods:
            pod.join(pod.template.grace_s + 10)

    def _repeat(self) -> None:
        while not self._is_over.wait(STEP_S):
            with self._lock:
                self._step()
                self._publish()

    def _publish(self) -> None:
        ready = self.ready
        self.fewest_ready = min(self.fewest_ready, len(ready))
        self.most_pods = max(self.most_pods, len(self.alive))
        self.endpoints.update(tuple(pod.address for pod in ready))

    def _step(self) -> None:
        """Add and remove pods as far as the strategy allows."""
        strategy, alive = self._strategy, self.alive
        current = [pod for pod in alive if pod.template == self._template]
        old = [pod for pod in alive if pod.template != self._template]
        room = strategy.replicas + strategy.surge - len(alive)
        for _ in range(min(room, strategy.replicas - len(current))):
            self._add()
        spare = len(self.ready) - (strategy.replicas - strategy.unavailable)
        for pod in sorted(old, key=lambda pod: pod.is_ready):
            if pod.is_ready:
                if spare <= 0:
                    return
                spare -= 1
            pod.delete()

    def _add(self) -> None:
        name = f"{self._name}-{len(self.pods)}"
        image = self._images[self._template.image]
        self.pods.append(
            Pod(name, self._template, image, self._network, self._directory, self._links)
        )
