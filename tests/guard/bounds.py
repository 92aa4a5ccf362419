# SPDX-License-Identifier: Apache-2.0
"""What was recorded, in ``bounds.json``: system calls exactly, instructions per Python version."""

import json
import sys
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("bounds.json")
SLACK = 1.10  #: instructions may grow by a tenth: other builds of Python and of the libraries
VERSION = "{}.{}".format(*sys.version_info)


def read_bounds() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def record(**kinds: Any) -> None:
    """Write what is counted now over what was recorded."""
    bounds = read_bounds() if FILE.exists() else {"instructions": {}}
    bounds |= {kind: value for kind, value in kinds.items() if kind != "instructions"}
    bounds["instructions"][VERSION] = kinds["instructions"]
    FILE.write_text(json.dumps(bounds, indent=2) + "\n", encoding="utf-8")


def allowed(recorded: dict[str, int], counted: dict[str, int], case: str) -> int:
    """Return how many instructions *case* may take.

    The yardstick takes out what is due to how this Python was built.
    """
    return int(recorded[case] * counted["yardstick"] / recorded["yardstick"] * SLACK)
