# SPDX-License-Identifier: Apache-2.0
"""What the answers of one run amount to."""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from math import ceil
from typing import Final, NamedTuple

from tests.benchmarks.swaps.client import LATE, LOST, SwapAnswer
from tests.benchmarks.swaps.subjects import Outcome

MIN_ERRORS: Final = 3  #: as ``docs/versions.md`` says
MARGIN_S: Final = 0.2  #: before a swap: what was sent then may be answered during it
MAX_ERROR_RATE: Final = 0.05  #: the default of ``--max-error-rate``


class SwapFigures(NamedTuple):
    """One server's row of the report."""

    requests: int
    other: dict[int, int]  #: how many answers had which status other than 200
    lost: int  #: connections that ended without an answer
    late: int  #: requests without an answer in time
    mixed: int  #: answers that are not from exactly one version
    broken: int  #: answers of a version that is broken
    calm_p99_s: float  #: of the requests before the first swap
    p99_s: float  #: from due to answered
    gap_s: float  #: the longest time without an answer of 200
    swapped: int  #: good versions that were served in the end
    refused: int  #: broken versions that the server refused

    @property
    def is_clean(self) -> bool:
        """Whether users noticed nothing."""
        return not (self.other or self.lost or self.late or self.mixed or self.broken)


def figures_of(answers: Sequence[SwapAnswer], outcomes: Sequence[Outcome]) -> SwapFigures:
    """Count *answers*, of a run with *outcomes*."""
    statuses = Counter(answer.status for answer in answers)
    lost, late, _ = (statuses.pop(kind, 0) for kind in (LOST, LATE, 200))
    broken = {outcome.version.name for outcome in outcomes if outcome.version.way}
    moments = sorted(answer.at for answer in answers if answer.status == 200)
    calm = [answer for answer in answers if answer.due < outcomes[0].began - MARGIN_S]
    return SwapFigures(
        requests=len(answers),
        other=dict(statuses),
        lost=lost,
        late=late,
        mixed=sum(answer.is_mixed for answer in answers),
        broken=sum(answer.version in broken for answer in answers),
        calm_p99_s=p99_of(calm),
        p99_s=p99_of(answers),
        gap_s=max(later - earlier for earlier, later in pairwise(moments)),
        swapped=sum(outcome.is_served for outcome in outcomes if not outcome.version.way),
        refused=sum(not outcome.is_served for outcome in outcomes if outcome.version.way),
    )


def p99_of(answers: Sequence[SwapAnswer]) -> float:
    """Return the 99th percentile of the latencies."""
    latencies = sorted(answer.at - answer.due for answer in answers)
    return latencies[ceil(0.99 * len(latencies)) - 1]


class RollBack(NamedTuple):
    """How fast one version that errs was rolled back, as its users saw it."""

    answers: int  #: of the version that errs
    errors: int
    seconds: float  #: from the answer that crossed the bound to the end of the rollback
    last_s: float  #: from there to the last error


def roll_back_of(answers: Sequence[SwapAnswer], outcome: Outcome) -> RollBack:
    """Judge the answers of the version of *outcome*, by the bound that the server has.

    :raises ValueError: the bound was not crossed, or the version not rolled back.
    """
    own = sorted((a for a in answers if a.version == outcome.version.name), key=lambda a: a.at)
    errors = [answer.at for answer in own if answer.status >= 500]
    crossed = crossing(own)
    ended = [step["ended"] for step in outcome.steps if step["name"] == "roll back"]
    if crossed is None or not ended:
        raise ValueError(f"not rolled back: {outcome.said or 'the new version is served'}")
    return RollBack(len(own), len(errors), ended[0] - crossed, errors[-1] - crossed)


def crossing(own: Sequence[SwapAnswer]) -> float | None:
    """Return when the answers of one version crossed the bound."""
    errors = 0
    for count, answer in enumerate(own, 1):
        errors += answer.status >= 500
        if errors >= MIN_ERRORS and errors > MAX_ERROR_RATE * count:
            return answer.at
    return None
