# SPDX-License-Identifier: Apache-2.0
"""The counters that front-ends keep for each version of a model: their layout, and their sums.

A model with several stages has an array for each stage and one for the requests that go through
several; requests that one stage answered alone are counted with that stage.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from servekit.ipc.counter_share import Key
    from servekit.ipc.counters import Counters

__all__ = [
    "CACHED",
    "DROPS",
    "DURATIONS",
    "GAUGES",
    "HISTOGRAMS",
    "KEY",
    "LEFT",
    "LENGTH",
    "MIRRORED",
    "MOMENTS",
    "OF_REQUESTS",
    "PARTS",
    "PLACES",
    "SIZES",
    "STATUSES",
    "STREAMS",
    "Activity",
    "Label",
    "StageCounts",
    "VersionCounts",
    "key_of",
    "label_of",
    "read_activity",
    "read_version",
    "read_versions",
    "read_waiting",
]

KEY: Final = "model"  #: the first part of the keys of the arrays; then label and version
STAGE: Final = ":"  #: between a model and its stage, in a label
#: upper bounds of the buckets of durations, in seconds: 100 us to 60 s
DURATIONS = (
    *(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05),
    *(0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0),
)
#: the same for what is mostly short, with fewer series
PARTS = (0.0001, 0.00025, 0.001, 0.0025, 0.01, 0.025, 0.1, 0.25, 1.0, 10.0)
SIZES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0)
#: each is counted: a service may answer with any of them
STATUSES = range(100, 600)
DROPS = ("expired", "cancelled", "poison")
#: why a batch left the queue when it did
LEFT = (
    *("full", "cost", "worker_idle", "shared"),
    *("delay_over", "deadline", "too_large", "retried"),
)
CACHED = ("hit", "miss")
MIRRORED = ("equal", "other_status", "other_body", "dropped")

HISTOGRAMS = {
    "request_duration_seconds": ("Time from the complete request to its response", DURATIONS),
    "queue_duration_seconds": (
        "Time that the oldest task of a batch waited for a worker",
        DURATIONS,
    ),
    "predict_duration_seconds": ("Time in one call of predict", DURATIONS),
    "batch_size": ("Number of inputs, or of rows, in a call of predict", SIZES),
    "decode_duration_seconds": ("Time to decode the inputs of a batch", PARTS),
    "encode_duration_seconds": ("Time to encode the outputs of a batch", PARTS),
    "ipc_duration_seconds": (
        "Time that a batch was on its way to the worker and back, or waited there",
        PARTS,
    ),
}
STREAM_NUMBERS = ("streams", "outputs", "streams_cancelled")
STREAMS = {
    "first_output_seconds": ("Time from the complete request to the first output", DURATIONS),
    "output_interval_seconds": ("Time between two outputs of a stream", DURATIONS),
}


def _lay_out() -> tuple[dict[object, int], int]:
    """Return the index of every series in the array, and its length.

    A histogram takes an element for each bucket, one for +Inf and one for the sum.
    """
    places: dict[object, int] = {}
    end = 0
    for name, (_, bounds) in (HISTOGRAMS | STREAMS).items():
        places[name] = end
        end += len(bounds) + 2
    words = (*DROPS, *LEFT, *CACHED, *MIRRORED, *STREAM_NUMBERS, "failed_s")
    for key in (*STATUSES, *words, "waiting", "running", "last_batch_at"):
        places[key] = end
        end += 1
    return places, end


PLACES, LENGTH = _lay_out()
#: places of the numbers that end with the front-end that set them
GAUGES = tuple(PLACES[key] for key in ("streams", "waiting", "running"))
#: places of Unix times, of which the latest counts
MOMENTS = (PLACES["last_batch_at"],)
#: series that a model with stages has, too: they count requests, and not batches and queues, except
#: why batches left
OF_REQUESTS = (
    *range(PLACES["request_duration_seconds"], PLACES["queue_duration_seconds"]),
    *range(PLACES["first_output_seconds"], PLACES["waiting"]),
)


class Label(NamedTuple):
    """Identifies an array."""

    name: str  #: ``MODEL``, or ``MODEL:STAGE``
    version: str  #: "" until the model has been prepared

    @property
    def model(self) -> str:
        """The model."""
        return self.name.partition(STAGE)[0]

    @property
    def stage(self) -> str:
        """The stage; "" for the model itself."""
        return self.name.partition(STAGE)[2]


def key_of(label: Label) -> Key:
    """Return the key of the array of *label*."""
    return (KEY, *label)


def label_of(key: Key) -> Label:
    """Return the label of the array of *key*."""
    return Label(*key[1:])


class StageCounts(NamedTuple):
    """The batches of one stage since the server started, of all front-ends together."""

    batches: int
    queue_s: float  #: the sum of the times that the oldest task of each batch waited
    predict_s: float  #: the sum of the times in predict
    waiting: int  #: tasks in the queue; sampled ten times a second, as *running* is
    running: int  #: tasks that workers have
    tasks: int = 0  #: those of all batches
    decode_s: float = 0.0  #: the sum of the times to decode the inputs of each batch
    encode_s: float = 0.0  #: the same for their outputs


class VersionCounts(NamedTuple):
    """The requests of one version of a model, of all front-ends together."""

    statuses: dict[int, int]  #: how many responses had each status, since the server started
    #: how many responses took at most each of ``DURATIONS``, but longer than the one before it;
    #: the last element is for longer ones. Errors made by a front-end (429, 503, 504) are not here
    durations: list[int]
    waiting: int  #: tasks in the queues; sampled ten times a second, as *running* is
    running: int  #: tasks that workers have
    stages: dict[str, StageCounts] = {}  # noqa: RUF012 - by name; that of an only stage is ""
    response_s: float = 0.0  #: the sum of the durations
    failed_s: float = 0.0  #: the sum of the times from the complete request to its error
    last_batch_at: float = 0.0  #: Unix time of the last answer of a worker; 0.0: there was none


def read_version(counters: Counters, model: str, version: str) -> VersionCounts:
    """Return what was counted for *version* of *model*."""

    def wanted(key: Key) -> bool:
        return key[0] == KEY and key[2] == version and label_of(key).model == model

    return _version_counts(counters.read(wanted))


def read_versions(counters: Counters) -> dict[tuple[str, str], VersionCounts]:
    """Return what was counted for each version, by model and version. Reads the memory once."""
    found: dict[tuple[str, str], dict[Key, list[float]]] = {}
    for key, numbers in counters.read(lambda key: key[0] == KEY).items():
        label = label_of(key)
        found.setdefault((label.model, label.version), {})[key] = numbers
    return {version: _version_counts(arrays) for version, arrays in found.items()}


def _version_counts(found: dict[Key, list[float]]) -> VersionCounts:
    """Return the sums of the arrays of one version."""
    arrays = list(found.values()) or [[0.0] * LENGTH]
    total = arrays[0] if len(arrays) == 1 else list(map(sum, zip(*arrays, strict=True)))
    start, first = PLACES["request_duration_seconds"], PLACES[STATUSES[0]]
    statuses = enumerate(total[first : first + len(STATUSES)], STATUSES[0])
    return VersionCounts(
        {status: int(n) for status, n in statuses if n},
        [int(number) for number in total[start : start + len(DURATIONS) + 1]],
        int(total[PLACES["waiting"]]),
        int(total[PLACES["running"]]),
        {label_of(key).stage: _stage_counts(numbers) for key, numbers in found.items()},
        total[start + len(DURATIONS) + 1],
        total[PLACES["failed_s"]],
        max(numbers[PLACES["last_batch_at"]] for numbers in arrays),
    )


def _stage_counts(numbers: list[float]) -> StageCounts:
    queue, predict = PLACES["queue_duration_seconds"], PLACES["predict_duration_seconds"]
    last = len(DURATIONS) + 1
    return StageCounts(
        batches=int(sum(numbers[queue : queue + last])),
        queue_s=numbers[queue + last],
        predict_s=numbers[predict + last],
        waiting=int(numbers[PLACES["waiting"]]),
        running=int(numbers[PLACES["running"]]),
        tasks=int(numbers[PLACES["batch_size"] + len(SIZES) + 1]),
        decode_s=numbers[PLACES["decode_duration_seconds"] + len(PARTS) + 1],
        encode_s=numbers[PLACES["encode_duration_seconds"] + len(PARTS) + 1],
    )


class Activity(NamedTuple):
    """Whether somebody uses a version of a model."""

    responses: int  #: since the server started
    in_progress: int  #: requests that wait, or that workers have; sampled ten times a second


def read_activity(counters: Counters) -> dict[tuple[str, str], Activity]:
    """Return the activity of each version by model and version. Reads the memory once."""
    found: dict[tuple[str, str], Activity] = {}
    first, last = PLACES[STATUSES[0]], PLACES[STATUSES[-1]]
    gauges = [PLACES[name] for name in ("streams", "waiting", "running")]
    for key, numbers in counters.read(lambda key: key[0] == KEY).items():
        label = label_of(key)
        known = found.get((label.model, label.version), Activity(0, 0))
        found[label.model, label.version] = Activity(
            known.responses + int(sum(numbers[first : last + 1])),
            known.in_progress + int(sum(numbers[place] for place in gauges)),
        )
    return found


def read_waiting(counters: Counters) -> dict[Label, int]:
    """Return how many tasks wait for each model or stage, in all front-ends."""
    found = counters.read(lambda key: key[0] == KEY)
    return {label_of(key): int(numbers[PLACES["waiting"]]) for key, numbers in found.items()}
