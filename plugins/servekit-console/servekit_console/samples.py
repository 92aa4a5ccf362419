# SPDX-License-Identifier: Apache-2.0
"""The counters of each version at one moment, and what happened between two moments."""

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Final

from msgspec import Struct

from servekit.extension import DURATIONS, Server

__all__ = ["NOTHING", "Rates", "VersionSample", "rates_between", "take_samples"]

QUEUE_FULL: Final = 429
SERVER_ERRORS: Final = 500


class VersionSample(Struct, array_like=True, frozen=True):
    """The counts of one version since the server started."""

    model: str
    version: str
    responses: int
    refused: int  #: responses with the status 429
    errors: int  #: responses with a status of 500 or more
    durations: Sequence[int]  #: as in ``servekit.extension.ModelStatistics``
    inputs: int
    batches: int
    queue_s: float
    predict_s: float
    waiting: int
    running: int

    @property
    def key(self) -> str:
        """Model and version as one string."""
        return f"{self.model}/{self.version}"


class Rates(Struct, frozen=True):
    """One version between two samples. ``None``: there was nothing to measure."""

    requests_per_s: float = 0.0
    refused_per_s: float = 0.0  #: responses with the status 429: the queue was full
    errors_per_s: float = 0.0  #: responses with a status of 500 or more
    p50_s: float | None = None  #: of responses with an output
    p99_s: float | None = None
    batch_size: float | None = None  #: inputs of the mean batch
    queue_s: float | None = None  #: wait of the oldest input of the mean batch
    predict_s: float | None = None  #: of the mean batch
    waiting: int = 0  #: tasks in the queues
    running: int = 0  #: tasks that workers have


NOTHING: Final = Rates()


def take_samples(server: Server) -> list[VersionSample]:
    """Return a sample of each version that *server* has counted anything for."""
    return [
        VersionSample(
            model,
            version,
            sum(found.statuses.values()),
            found.statuses.get(QUEUE_FULL, 0),
            sum(n for status, n in found.statuses.items() if status >= SERVER_ERRORS),
            found.durations,
            found.inputs,
            found.batches,
            found.queue_s,
            found.predict_s,
            found.waiting,
            found.running,
        )
        for (model, version), found in server.all_statistics().items()
    ]


def rates_between(
    before: Mapping[str, VersionSample], after: Sequence[VersionSample], seconds: float
) -> dict[str, Rates]:
    """Return the rates of each version of *after*, by key; one without a sample before has none.

    :param before: earlier samples by key.
    :param seconds: between them and *after*.
    """
    return {
        each.key: _rates(before[each.key], each, seconds) for each in after if each.key in before
    }


def _rates(old: VersionSample, new: VersionSample, seconds: float) -> Rates:
    durations = [b - a for a, b in zip(old.durations, new.durations, strict=True)]
    batches = new.batches - old.batches
    return Rates(
        max(0, new.responses - old.responses) / seconds,
        max(0, new.refused - old.refused) / seconds,
        max(0, new.errors - old.errors) / seconds,
        _quantile(durations, 0.5),
        _quantile(durations, 0.99),
        (new.inputs - old.inputs) / batches if batches > 0 else None,
        (new.queue_s - old.queue_s) / batches if batches > 0 else None,
        (new.predict_s - old.predict_s) / batches if batches > 0 else None,
        new.waiting,
        new.running,
    )


def _quantile(counts: Sequence[int], share: float) -> float | None:
    """Return the duration that *share* of the responses did not exceed, between two bounds.

    :param counts: how many responses were in each bucket of ``DURATIONS``.
    """
    wanted = share * sum(counts)
    if wanted <= 0:
        return None
    low_s, below = 0.0, 0
    for bound_s, upto in zip(DURATIONS, accumulate(counts), strict=False):
        if upto >= wanted:
            return low_s + (bound_s - low_s) * (wanted - below) / (upto - below)
        low_s, below = bound_s, upto
    return low_s
