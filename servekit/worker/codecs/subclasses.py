# SPDX-License-Identifier: Apache-2.0
"""Values of classes derived from Python's own types, such as ``numpy.float64``, as values of those.

``pandas.Timestamp`` is another one. msgspec writes values of Python's own types only.
"""

from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final

__all__ = ["base_value"]


def _bytes(value: Any) -> bytes:
    return bytes(memoryview(value))


def _clock(value: Any) -> tuple[int, int, int, int]:
    return value.hour, value.minute, value.second, value.microsecond


#: the types, and what makes values of them; a class may be derived from several: the first counts
MAKERS: Final[Mapping[type, Callable[[Any], Any]]] = {
    str: str.__str__,
    int: int.__int__,
    float: float.__float__,
    bytes: _bytes,
    bytearray: _bytes,
    datetime: lambda value: datetime.combine(value.date(), value.timetz()),
    date: lambda value: date(value.year, value.month, value.day),
    time: lambda value: time(*_clock(value), value.tzinfo, fold=value.fold),
    timedelta: lambda value: timedelta(value.days, value.seconds, value.microseconds),
    Decimal: Decimal,
}


def base_value(value: Any) -> Any:
    """Return *value* as the type that its class is derived from; ``None`` if it is another one."""
    kind = type(value)
    make = next((make for base, make in MAKERS.items() if issubclass(kind, base)), None)
    return None if make is None else make(value)
