# SPDX-License-Identifier: Apache-2.0
"""Numbers, times, sizes and files on the command line: each is the ``type`` of an argument.

    parser.add_argument("--connections", type=count, metavar="N")

What makes no sense (a negative count, a time of zero, NaN) is refused with the reason.
"""

import os
import re
from argparse import ArgumentTypeError
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from servekit.settings.values import DAY_S, TIB, Between, number, plain_text, size, whole_number

__all__ = [
    "NumberArgument",
    "count",
    "duration",
    "duration_or_zero",
    "free_port",
    "nonnegative",
    "output_file",
    "percent",
    "port",
    "positive",
    "ratio",
    "seconds",
    "share",
    "size_in_bytes",
    "whole",
]

MAX_NUMBER: Final = 10.0**9  #: more of anything is a mistake
TIME: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*(us|ms|s|m|h|d|)", re.ASCII)
UNITS: Final = {"us": 1e-6, "ms": 1e-3, "": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": DAY_S}


def seconds(text: str) -> float:
    """Parse ``20ms``, ``1.5s``, ``2m``, ``1h``, ``1d`` or plain seconds.

    :raises ValueError: *text* is not a time.
    """
    match = TIME.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a time such as 20ms, 1.5s or 2m")
    return float(match[1]) * UNITS[match[2]]


@dataclass(frozen=True, slots=True)
class NumberArgument:
    """Parses a number of an argument, which must be in a range."""

    low: float
    high: float = MAX_NUMBER
    read: Callable[[str], float] = whole_number
    is_above: bool = False  #: *low* itself is refused

    def __call__(self, text: str) -> float:
        """Return the number in *text*.

        :raises ArgumentTypeError: it is not one, or out of range.
        """
        try:
            value = Between(self.low, self.high, self.read)(text)
        except ValueError as error:
            raise ArgumentTypeError(str(error)) from error
        if self.is_above and value == self.low:
            raise ArgumentTypeError(f"{text} is not above {plain_text(self.low)}")
        return value


whole: Final = NumberArgument(0)
count: Final = NumberArgument(1)  #: at least one
percent: Final = NumberArgument(0, 100)
port: Final = NumberArgument(1, 65535)
free_port: Final = NumberArgument(0, 65535)  #: 0: any that is free
nonnegative: Final = NumberArgument(0, read=number)
positive: Final = NumberArgument(0, read=number, is_above=True)
ratio: Final = NumberArgument(0, 1, number)
share: Final = NumberArgument(0, 1, number, is_above=True)
duration: Final = NumberArgument(0, 366 * DAY_S, seconds, is_above=True)
duration_or_zero: Final = NumberArgument(0, 366 * DAY_S, seconds)
size_in_bytes: Final = NumberArgument(1, 1024 * TIB, size)


def output_file(text: str) -> Path:
    """Return the path of a file that can be written, as far as that is known beforehand.

    :raises ArgumentTypeError: it is a directory, in no directory, or not for this user.
    """
    path = Path(text)
    if path.is_dir():
        raise ArgumentTypeError(f"{path}: is a directory")
    if not path.parent.is_dir():
        raise ArgumentTypeError(f"{path.parent}: no such directory")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise ArgumentTypeError(f"{path}: this user cannot write it")
    return path
