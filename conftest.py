# SPDX-License-Identifier: Apache-2.0
"""What every test starts from, wherever it lies."""

import os
import re
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

# Several tests run at once: a library that spins in threads of its own takes the cores from them.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

#: how a file begins whose tests are all slow, or are skipped without PyTorch
ALL_SLOW = re.compile(
    r"^(?:torch = )?pytest\.importorskip\(\"torch\"\)|^pytestmark = [^\]]*\bpytest\.mark\.slow\b",
    re.MULTILINE,
)

#: seconds since the epoch after which no test begins; CI sets it, whose time is limited
END_AT = float(os.environ.get("TESTS_END_AT", "inf"))

# How long an example takes says more about the machine than about us.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")


def pytest_configure(config: pytest.Config) -> None:
    """Undo what a shell does to jobs in the background: it has them ignore Ctrl-C and hang-ups.

    The processes that tests start inherit what is ignored. What has a handler here, they
    have at its default.
    """
    if is_quick(config):
        sys.modules["rfc3987_syntax"] = None  # jsonschema checks IRIs by 38 grammars: seconds
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda _number, _frame: None)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files of which nothing is run: importing what they need takes seconds."""
    is_left_out = is_quick(config) and collection_path.suffix == ".py"
    return True if is_left_out and is_all_slow(collection_path) else None


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Skip what would begin too late, before its fixtures are made."""
    if time.time() > END_AT:
        pytest.skip("no time is left: TESTS_END_AT has passed")


def is_quick(config: pytest.Config) -> bool:
    """Whether this is ``make test``."""
    return bool(config.getoption("markexpr") == "not slow")


def is_all_slow(path: Path) -> bool:
    """Whether the marks of the file say that each of its tests is slow."""
    return ALL_SLOW.search(path.read_text(encoding="utf-8")) is not None


@pytest.fixture(scope="session")
def torchvision() -> "Iterator[ModuleType]":
    """Return torchvision; pictures and networks work without its operators in C++."""
    torch = pytest.importorskip("torch")
    operators = []
    try:
        import torchvision
    except RuntimeError:  # torchvision describes operators that do not exist
        operators.append(torch.library.Library("torchvision", "DEF"))
        for name in ("nms", "qnms"):
            operators[0].define(
                f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
            )
        import torchvision
    except ImportError:
        pytest.skip("torchvision is not installed")
    yield torchvision
    operators.clear()
