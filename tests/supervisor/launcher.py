# SPDX-License-Identifier: Apache-2.0
"""``servekit`` with stand-ins at the process edge, as ``STAND_INS`` (JSON) names them.

``CORES`` and ``AVAILABLE_BYTES`` stand in for the machine's.
"""

import json
import os
import sys

from servekit.cli import main
from servekit.supervisor import front_end, process, supervisor, worker

STAND_INS = json.loads(os.environ.get("STAND_INS", "{}"))


def python_module(module, *arguments, python=sys.executable):
    """Run a stand-in script where one is named."""
    if module in STAND_INS:
        return [python, STAND_INS[module], *arguments]
    return process.python_module(module, *arguments, python=python)


if cores := os.environ.get("CORES"):
    supervisor.usable_cores = lambda: int(cores)
if available := os.environ.get("AVAILABLE_BYTES"):
    supervisor.available_bytes = lambda: int(available)
front_end.python_module = worker.python_module = python_module
sys.exit(main())
