# SPDX-License-Identifier: Apache-2.0
"""The rows, by the number of the promise. A row's docstring says what is promised and how tried."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.faults.rows.crash_loop import crash_loop
from tests.faults.rows.floods import floods
from tests.faults.rows.growth import growth
from tests.faults.rows.hoarders import memory, slow_uploads
from tests.faults.rows.large_bodies import large_bodies
from tests.faults.rows.overload import overload
from tests.faults.rows.poison import poison
from tests.faults.rows.slow_clients import slow_clients
from tests.faults.rows.stops import front_end_kills, reloads, stops, supervisor_kills
from tests.faults.rows.streams import streams
from tests.faults.rows.surroundings import clock_jumps, network
from tests.faults.rows.worker_kills import death_and_replacement, hangs, kills_under_load
from tests.faults.rows.zoo import zoo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.faults.figures import Figure
    from tests.faults.stage import Stage

ROWS: Final[dict[str, Callable[[Stage], Iterator[Figure]]]] = {
    "F1": kills_under_load,
    "F2-F3": death_and_replacement,
    "F4": hangs,
    "F5": overload,
    "F6": slow_clients,
    "F7": stops,
    "F8": reloads,
    "F9": supervisor_kills,
    "F10": front_end_kills,
    "F11": crash_loop,
    "F12": growth,
    "F13": large_bodies,
    "F18": network,
    "F19": clock_jumps,
    "F20": zoo,
    "floods": floods,
    "poison": poison,
    "streams": streams,
    "uploads": slow_uploads,
    "memory": memory,
}


def promise(key: str) -> str:
    """Return the sentence that the row keeps."""
    return (ROWS[key].__doc__ or "").splitlines()[0]
