# SPDX-License-Identifier: Apache-2.0
"""Metrics of a service's own: what the model sees and how sure it is."""

from collections.abc import Mapping

import numpy as np

from servekit import Context, Service

SPECIES = ("setosa", "versicolor", "virginica")
#: mean lengths, in cm, of 50 flowers each (Fisher 1936)
CENTROIDS = np.array(
    [[5.006, 3.428, 1.462, 0.246], [5.936, 2.77, 4.26, 1.326], [6.588, 2.974, 5.552, 2.026]],
    "float32",
)
BUCKETS = (0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0)


class Iris(Service):
    """Takes a flower for the species whose mean is nearest."""

    def load(self, context: Context) -> None:
        """Make the metrics: here, once, before the first batch."""
        metrics = context.metrics
        self._taken_for = metrics.counter("species", "What flowers were taken for", ("species",))
        self._margin = metrics.histogram(
            "margin_cm", "How much nearer the nearest mean is than the next", buckets=BUCKETS
        )
        self._farthest = metrics.gauge("farthest_cm", "Distance of the oddest flower so far")
        self._record = 0.0

    def predict(self, batch: Mapping[str, np.ndarray]) -> list[str]:
        """Name each flower of ``x``, an array ``[n, 4]``, and count it."""
        distances = np.linalg.norm(batch["x"][:, None] - CENTROIDS, axis=2)
        nearest, second = np.sort(distances, axis=1)[:, :2].T
        for margin in second - nearest:
            self._margin.observe(float(margin))
        self._record = max(self._record, float(nearest.max()))
        self._farthest.set(self._record)
        names = [SPECIES[index] for index in distances.argmin(axis=1)]
        for name in names:
            self._taken_for.inc(species=name)
        return names
