# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.simulation``: prints, or writes, ``docs/fleets.md``."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.simulation import balancing, growing, losing, rolling
from tests.simulation.fleet import Costs
from tests.simulation.page import introduction

PAGE: Final = Path(__file__).parents[2] / "docs" / "fleets.md"
PICTURES: Final = PAGE.parent / "images"


def main(argv: Sequence[str] | None = None) -> int:
    """Simulate, and print or write the page."""
    parser = argparse.ArgumentParser(prog="tests.simulation", description=__doc__)
    parser.add_argument("--measure", action="store_true", help="measure the costs of a node first")
    parser.add_argument("--publish", action="store_true", help="write the page and its pictures")
    parsed = parser.parse_args(argv)
    if parsed.measure:
        from tests.simulation.measure import measure

        measure()
    costs = Costs.measured()
    sections = [each.section(costs) for each in (balancing, losing, rolling, growing)]
    page = "".join([introduction(costs), *(section.page for section in sections)])
    if not parsed.publish:
        print(page)
        return 0
    PAGE.write_text(page.rstrip("\n") + "\n")
    for section in sections:
        (PICTURES / f"{section.name}.svg").write_text(section.chart.text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
