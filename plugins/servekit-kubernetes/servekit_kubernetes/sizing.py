# SPDX-License-Identifier: Apache-2.0
"""How much memory a pod needs, from what ``servekit check`` measured."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

__all__ = ["peaks", "pod_memory_mib"]

MIB = 2**20
#: supervisor, front-end and observer use 105 MiB at rest; the remainder is for bodies in flight
SERVER_MIB = 256
GROWTH = 1.25  #: factor on the measured peak of a worker, for larger inputs
STEP_MIB = 64


def peaks(found: Mapping[str, Any], workers: Mapping[str, int]) -> Iterator[int]:
    """Yield the peak of each worker of a model, in bytes.

    :param found: the JSON of ``servekit check``.
    :param workers: how many processes have each stage; "" is a model without stages.
    """
    stages: Sequence[Mapping[str, Any]] = found.get("stages", [found])
    for stage in stages:
        peak = stage["peak_bytes"] or stage["loaded"]["resident_bytes"]
        yield from [peak] * workers.get(stage["stage"], 1)


def pod_memory_mib(bytes_of_workers: Sequence[int]) -> int:
    """Return the memory of a pod with these workers, in MiB."""
    need = SERVER_MIB + GROWTH * sum(bytes_of_workers) / MIB
    return STEP_MIB * -(-int(need) // STEP_MIB)
