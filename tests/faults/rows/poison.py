# SPDX-License-Identifier: Apache-2.0
"""Requests that kill each worker they meet."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from tests.faults.client import Client
from tests.faults.figures import Figure, at_least, at_most, none
from tests.faults.requests import predict, steady
from tests.faults.stage import MODELS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.faults.ledger import Ledger
    from tests.faults.stage import Stage

RATE = 60.0
PATIENCE_S = 300  #: nothing times out while workers come back, on however slow a machine
FEW = 4  #: failures that a model may have in a minute
LOST_TO_ONE = 3  #: workers: 1 + log2 of the largest batch


def poison(stage: Stage) -> Iterator[Figure]:
    """A request that kills its worker is found and refused; the others get responses.

    The same deadly request twenty times among a thousand good ones, with ``retry = true`` in
    ``model.toml``; then without, and four times: the fifth in a minute would give the model up.
    """
    arrivals, seconds = stage.count((20, 1000 / RATE), (4, 2.0))
    patient = shutil.copytree(MODELS / "work", stage.path("patient"))
    toml = patient / "model.toml"
    toml.write_text("retry = true\n" + toml.read_text())
    ledger, lost = _poisoned(stage, str(patient), arrivals, seconds)
    good, bad = ledger.of("good"), ledger.of("poison")
    yield none("retry: other than 200 for the good", good.other_than({200}) + good.lost())
    yield none("retry: other than 500 for the deadly", bad.other_than({500}) + bad.lost())
    yield none("retry: wrong answers", ledger.wrong())
    yield at_least("retry: workers lost", lost, 1)
    yield at_most("retry: workers lost", lost, LOST_TO_ONE)
    arrivals, seconds = FEW, seconds / 2
    ledger, lost = _poisoned(stage, str(MODELS / "work"), arrivals, seconds)
    good, bad = ledger.of("good"), ledger.of("poison")
    yield none("other than 200 and 503 for the good", good.other_than({200, 503}) + good.lost())
    yield none("other than 503 for the deadly", bad.other_than({503}) + bad.lost())
    yield none("wrong answers", ledger.wrong())
    yield at_most("workers lost", lost, arrivals)


def _poisoned(stage: Stage, model: str, arrivals: int, seconds: float) -> tuple[Ledger, int]:
    """Return the ledger, and how many workers were lost."""
    with stage.server("--models", f"work={model}", f"--predict-timeout={PATIENCE_S}") as server:
        shots = list(steady("work", RATE, seconds, "good"))
        shots += [
            predict(
                "work", "poison", {"exit": 3}, kind="poison", at=0.3 + n * 0.8 * seconds / arrivals
            )
            for n in range(arrivals)
        ]
        ledger = Client(server.port, 64, PATIENCE_S).run(shots)
        return ledger, server.said.count(" exited with 3 ")
