# SPDX-License-Identifier: Apache-2.0
"""How long front-ends and workers wait for each other without sleep.

To fall asleep and be woken takes two processes about 15 µs each, on virtual machines more: longer
than many a small prediction.
"""

from typing import Final

__all__ = ["BUSY_S", "OTHERS_S"]

BUSY_S: Final = 200e-6  #: as long as KVM waits before it halts a core (``halt_poll_ns``)
OTHERS_S: Final = 10e-6  #: a look that takes longer, instead of 2 µs: others want the core
