# SPDX-License-Identifier: Apache-2.0
"""How long front-ends and workers wait for each other without sleep.

To fall asleep and be woken takes two processes about 15 µs each, on virtual machines more: longer
than many a small prediction.
"""

import os
from typing import Final

from servekit.system.cgroups import cpu_quota

__all__ = ["BUSY_S", "OTHERS_S", "busy_poll_s"]

BUSY_S: Final = 200e-6  #: as long as KVM waits before it halts a core (``halt_poll_ns``)
OTHERS_S: Final = 10e-6  #: a look that takes longer, instead of 2 µs: others want the core


def busy_poll_s(choice: str) -> float:
    """Return how long this process and its children may wait without sleep.

    :param choice: the setting ``busy_poll``.
    """
    if choice == "auto":
        quota = cpu_quota()
        choice = "on" if quota is None or quota >= len(os.sched_getaffinity(0)) else "off"
    return BUSY_S if choice == "on" else 0.0
