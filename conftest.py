# SPDX-License-Identifier: Apache-2.0
"""What every test starts from, wherever it lies."""

import os
import signal

from hypothesis import HealthCheck, settings

# Several tests run at once: a library that spins in threads of its own takes the cores from them.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

# How long an example takes says more about the machine than about us.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")


def pytest_configure() -> None:
    """Undo what a shell does to jobs in the background: it has them ignore Ctrl-C and hang-ups.

    The processes that tests start inherit what is ignored. What has a handler here, they
    have at its default.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda _number, _frame: None)
