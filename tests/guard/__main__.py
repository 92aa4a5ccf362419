# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.guard --record``: write down what the hot path costs now."""

import argparse
import json
import sys
import tempfile
from pathlib import Path

from tests.guard.bounds import record
from tests.guard.counting import count_instructions
from tests.guard.tools import PROBES, why_not
from tests.guard.turns import typical_turns


def main() -> int:
    """Count, print, and record if asked to."""
    parser = argparse.ArgumentParser(prog="python -m tests.guard", description=__doc__)
    parser.add_argument("--record", action="store_true", help="these are the bounds from now on")
    is_recording = parser.parse_args().record
    if reasons := [reason for tool in PROBES if (reason := why_not(tool))]:
        print("guard:", "; ".join(reasons), file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as directory:
        counts = {
            "system_calls": typical_turns(Path(directory)),
            "instructions": count_instructions(Path(directory)),
        }
    print(json.dumps(counts, indent=2))
    if is_recording:
        record(**counts)
    return 0


if __name__ == "__main__":
    sys.exit(main())
