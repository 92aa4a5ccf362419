# SPDX-License-Identifier: Apache-2.0
"""Lists of CPUs, as ``taskset`` reads them: ``0-3,8``."""

import re
from collections.abc import Sequence
from typing import Any, Final

from servekit.settings.checks import refuse, string

__all__ = ["cpu_list", "cpu_numbers", "cpu_share"]

LIST: Final = re.compile(r"\d{1,4}(-\d{1,4})?(,\d{1,4}(-\d{1,4})?)*")


def cpu_list(where: str, value: Any) -> str:
    """Return *value* if it is a list of CPUs.

    :raises ValueRefused: it is not.
    """
    text = string(where, value)
    try:
        cpu_numbers(text)
    except ValueError as error:
        refuse(where, str(error))
    return text


def cpu_numbers(text: str) -> list[int]:
    """Return the numbers in *text*, in order and once each.

    :raises ValueError: it is not such a list.
    """
    if not LIST.fullmatch(text):
        raise ValueError(f"{text!r} is not a list of CPUs such as 0-3,8")
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if int(last or first) < int(first):
            raise ValueError(f"{part} is an empty range of CPUs")
        found.update(range(int(first), int(last or first) + 1))
    return sorted(found)


def cpu_share(cpus: Sequence[int], place: int, count: int) -> list[int]:
    """Return the CPUs of one of *count* processes that share *cpus* equally, at least one.

    :param place: of the process, from 0; CPUs are given twice if there are more places than CPUs.
    """
    if not cpus:
        return []
    size = max(1, len(cpus) // count)
    first = place * size % len(cpus)
    return list(cpus[first : first + size])
