# SPDX-License-Identifier: Apache-2.0
"""Timestamps of msgpack with nanoseconds, which a ``datetime`` cannot hold."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgpack

__all__ = ["FineTime", "fine_times", "rounded"]

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
SECOND: Final = timedelta(seconds=1)


class FineTime(datetime):
    """A moment in UTC, with nanoseconds."""

    nanosecond: int  #: within the microsecond, 0 to 999

    @classmethod
    def of(cls, stamp: msgpack.Timestamp) -> "FineTime":
        """Return the moment of *stamp*.

        :raises OverflowError: it lies outside the years 1 to 9999.
        """
        micros = timedelta(seconds=stamp.seconds, microseconds=stamp.nanoseconds // 1000)
        found = cls.fromisoformat((EPOCH + micros).isoformat())
        found.nanosecond = stamp.nanoseconds % 1000
        return found

    def payload(self) -> bytes:
        """Return the payload of the msgpack extension."""
        seconds, rest = divmod(rounded(self) - EPOCH, SECOND)
        nanoseconds = rest.microseconds * 1000 + self.nanosecond
        return bytes(msgpack.Timestamp(seconds, nanoseconds).to_bytes())

    def __str__(self) -> str:
        """Return the moment in the format of RFC 3339, with nine digits."""
        text = rounded(self).replace(tzinfo=None).isoformat(timespec="microseconds")
        return f"{text}{self.nanosecond:03}Z"


def fine_times(value: Any) -> Any:
    """Return *value* with a ``datetime`` or a ``FineTime`` for every ``msgpack.Timestamp``."""
    if isinstance(value, msgpack.Timestamp):
        return FineTime.of(value) if value.nanoseconds % 1000 else value.to_datetime()
    return _each(fine_times, value)


def rounded(value: Any) -> Any:
    """Return *value* with a ``datetime`` for every ``FineTime``."""
    if isinstance(value, FineTime):
        return datetime(*value.timetuple()[:6], value.microsecond, tzinfo=UTC)
    return _each(rounded, value)


def _each(change: Any, value: Any) -> Any:
    if type(value) is list:
        return [change(inner) for inner in value]
    if type(value) is dict:
        return {key: change(inner) for key, inner in value.items()}
    return value
