# SPDX-License-Identifier: Apache-2.0
"""All results of one run: the object that ``servekit bench --json`` prints."""

from msgspec import Struct

from servekit_bench.report.figures import LoadFigures, SaturationFigures, TargetFigures
from servekit_bench.report.verdict import TargetComparison

__all__ = ["BenchReport"]


class BenchReport(Struct, frozen=True):
    """All results of a run of ``servekit bench``."""

    began: str  #: ISO 8601, UTC
    machine: str
    load: LoadFigures | None  #: ``None`` for a search for the saturation
    duration_s: float  #: length of a round, or of a step of the search
    warmup_s: float
    targets: list[TargetFigures]
    comparison: TargetComparison | None
    saturation: SaturationFigures | None
    warnings: list[str]
    was_stopped: bool  #: before its end, by Ctrl-C or the deadline
