# SPDX-License-Identifier: Apache-2.0
"""The metrics of TorchServe's front-end by their names. Runs in: front-end, at each scrape."""

from __future__ import annotations

from socket import gethostname
from typing import TYPE_CHECKING, Final

from prometheus_client.core import Metric

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from servekit.extension import ModelStatistics, ModelView, Server

__all__ = ["TorchServeMetrics"]

#: names in TorchServe, which has no ``_total`` for most counters, so their type is unknown here
REQUESTS: Final = "ts_inference_requests_total"
LATENCY: Final = "ts_inference_latency_microseconds"
QUEUE: Final = "ts_queue_latency_microseconds"
CLASSES: Final = ("2XX", "4XX", "5XX")
MICROSECONDS: Final = 1e6


class TorchServeMetrics:
    """Makes the metrics of the models that were archived for TorchServe."""

    def __init__(self, server: Server, models: Callable[[], Mapping[str, ModelView]]) -> None:
        """Take the numbers of *server* for *models*."""
        self._server, self._models, self._host = server, models, gethostname()

    def collect(self) -> Iterable[Metric]:
        """Return the metrics as they are now; none without such models."""
        found = [
            (view, self._server.statistics(view.name, view.version))
            for default in self._models().values()
            for view in {
                each.version: each for each in (default, *default.others.values())
            }.values()
        ]
        return [*self._of_models(found), *self._of_statuses(found)] if found else ()

    def _of_models(self, found: list[tuple[ModelView, ModelStatistics]]) -> Iterable[Metric]:
        requests = Metric(REQUESTS, "Requests that reached a model", "unknown")
        latency = Metric(LATENCY, "Sum of the times of responses", "unknown")
        queue = Metric(QUEUE, "Sum of the times in queues, of each batch the longest", "unknown")
        for view, numbers in found:
            version, host = view.version, self._host
            labels = {"model_name": view.name, "model_version": version, "hostname": host}
            requests.add_sample(REQUESTS, labels, sum(numbers.statuses.values()))
            latency.add_sample(LATENCY, labels, numbers.response_s * MICROSECONDS)
            queue.add_sample(QUEUE, labels, numbers.queue_s * MICROSECONDS)
        return requests, latency, queue

    def _of_statuses(self, found: list[tuple[ModelView, ModelStatistics]]) -> Iterable[Metric]:
        for name in CLASSES:
            metric = Metric(f"Requests{name}", f"Responses with a status of {name}", "unknown")
            count = sum(
                number
                for _, numbers in found
                for status, number in numbers.statuses.items()
                if str(status)[0] == name[0]
            )
            labels = {"Level": "Host", "Hostname": self._host}
            metric.add_sample(f"Requests{name}", labels, count)
            yield metric


def _versions(default: ModelView) -> Iterable[ModelView]:
    """Return the loaded versions of a model, each once."""
    return {each.version: each for each in (default, *default.others.values())}.values()
