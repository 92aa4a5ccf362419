# SPDX-License-Identifier: Apache-2.0
"""Values of common types as lists, strings and bytes that stand for them, and back."""

from collections.abc import Sequence
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from struct import Struct
from typing import Any, Final
from uuid import UUID

from servekit.types import Audio, File
from servekit.types.values import ValueType, name_of, registered, registered_by_name

__all__ = ["find_by_name", "find_type"]

COMPLEX: Final = Struct("<dd")
MICROSECOND: Final = timedelta(microseconds=1)
IMAGE: Final = "PIL.Image:Image"


def find_type(kind: type) -> tuple[str, ValueType] | None:
    """Return the name and the ``ValueType`` of *kind*, or of the first base that has one."""
    for base in kind.__mro__:
        found = registered.get(base) or BUILT_IN.get(base) or _lazy(name_of(base))
        if found is not None:
            return name_of(base), found
    return None


def find_by_name(name: str) -> ValueType | None:
    """Return the ``ValueType`` of the class *name*; ``None`` if there is none in this process."""
    return registered_by_name.get(name) or BY_NAME.get(name) or _lazy(name)


def _lazy(name: str) -> ValueType | None:
    """Return the one of Pillow's images, which is imported with the first of them."""
    if name != IMAGE:
        return None
    from servekit.worker.codecs import image_values  # imports Pillow

    return ValueType(image_values.write, image_values.read)


# ------------------------------------------------------------ dates and times


def _write_zone(zone: tzinfo | None, offset: timedelta | None) -> Any:
    """Return a representation of *zone*; an offset for one that is not of the standard library."""
    if zone is None:
        return None
    if type(zone).__module__ == "zoneinfo" and getattr(zone, "key", None) is not None:
        return zone.key  # type: ignore[attr-defined]
    given = zone.__getinitargs__() if type(zone) is timezone else (offset,)  # type: ignore[attr-defined]
    return None if given[0] is None else [given[0] // MICROSECOND, *given[1:]]


def _read_zone(written: Any) -> tzinfo | None:
    if written is None:
        return None
    if isinstance(written, str):
        from zoneinfo import ZoneInfo  # imported already where many such times are

        return ZoneInfo(written)
    microseconds, *name = written
    return timezone(timedelta(microseconds=microseconds), *name)


def _write_datetime(value: datetime) -> list[Any]:
    parts = [*value.timetuple()[:6], value.microsecond, value.fold]
    return [*parts, _write_zone(value.tzinfo, value.utcoffset())]


def _read_datetime(written: Sequence[Any]) -> datetime:
    *parts, fold, zone = written
    return datetime(*parts).replace(tzinfo=_read_zone(zone), fold=fold)


def _write_time(value: time) -> list[Any]:
    parts = [value.hour, value.minute, value.second, value.microsecond, value.fold]
    return [*parts, _write_zone(value.tzinfo, value.utcoffset())]


def _read_time(written: Sequence[Any]) -> time:
    *parts, fold, zone = written
    return time(*parts).replace(tzinfo=_read_zone(zone), fold=fold)


# ------------------------------------------------------------ all of them


def _read_complex(written: bytes) -> complex:
    return complex(*COMPLEX.unpack(written))


BUILT_IN: Final[dict[type, ValueType]] = {
    set: ValueType(list, set),
    frozenset: ValueType(list, frozenset),
    complex: ValueType(lambda value: COMPLEX.pack(value.real, value.imag), _read_complex),
    datetime: ValueType(_write_datetime, _read_datetime),
    date: ValueType(date.toordinal, date.fromordinal),
    time: ValueType(_write_time, _read_time),
    timedelta: ValueType(
        lambda value: [value.days, value.seconds, value.microseconds],
        lambda written: timedelta(*written),
    ),
    Decimal: ValueType(str, Decimal),
    UUID: ValueType(lambda value: value.bytes, lambda written: UUID(bytes=bytes(written))),
    File: ValueType(
        lambda value: [value.name, value.content_type, value.content],
        lambda written: File(*written),
    ),
    Audio: ValueType(
        lambda value: [value.samples, value.sample_rate], lambda written: Audio(*written)
    ),
}
BY_NAME: Final = {name_of(kind): each for kind, each in BUILT_IN.items()}
