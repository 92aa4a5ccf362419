# SPDX-License-Identifier: Apache-2.0
"""Arguments of ``servekit ray``, read and checked."""

import argparse
import os

from servekit.settings.arguments import count

__all__ = ["bounds", "in_range", "variable"]


def bounds(text: str) -> tuple[int, int]:
    """Read ``N`` or ``MIN:MAX``."""
    low, _, high = text.partition(":")
    minimum, maximum = int(count(low)), int(count(high or low))
    if maximum < minimum:
        raise argparse.ArgumentTypeError(f"{text!r}: the maximum is below the minimum")
    return minimum, maximum


def in_range(minimum: int, maximum: int) -> str:
    """Return what ``bounds`` reads."""
    return f"{minimum}:{maximum}" if minimum < maximum else str(minimum)


def variable(text: str) -> tuple[str, str]:
    """Read ``NAME=VALUE``, or ``NAME`` of a variable that this process has."""
    name, sign, value = text.partition("=")
    if not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    if not sign and name not in os.environ:
        raise argparse.ArgumentTypeError(f"{name}: is not set; write {name}=VALUE")
    return name, value if sign else os.environ[name]
