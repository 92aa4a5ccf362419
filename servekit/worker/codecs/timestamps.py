# SPDX-License-Identifier: Apache-2.0
"""Timestamps of msgpack that are finer than a ``datetime``: they keep their nanoseconds."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgpack

__all__ = ["FineTime", "fine_times", "rounded"]

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
SECOND: Final = timedelta(seconds=1)


class FineTime(datetime):
    """A moment in UTC whose last three digits a ``datetime`` has no room for."""

    nanosecond: int  #: of the microsecond, 0 to 999

    @classmethod
    def of(cls, seconds: int, nanoseconds: int) -> "FineTime":
        """Return the moment of a timestamp.

        :raises OverflowError: it lies outside of the years 1 to 9999.
        """
        moment = EPOCH + timedelta(seconds=seconds, microseconds=nanoseconds // 1000)
        found = cls.fromisoformat(moment.isoformat())
        found.nanosecond = nanoseconds % 1000
        return found

    @classmethod
    def of_payload(cls, payload: bytes) -> "FineTime":
        """Return the moment whose ``payload`` this is."""
        found = msgpack.Timestamp.from_bytes(payload)
        return cls.of(found.seconds, found.nanoseconds)

    def payload(self) -> bytes:
        """Return the payload of the timestamp."""
        seconds, rest = divmod(rounded(self) - EPOCH, SECOND)
        nanoseconds = rest.microseconds * 1000 + self.nanosecond
        return bytes(msgpack.Timestamp(seconds, nanoseconds).to_bytes())

    def __str__(self) -> str:
        """Return the moment as RFC 3339 has it, with nine digits."""
        text = rounded(self).replace(tzinfo=None).isoformat(timespec="microseconds")
        return f"{text}{self.nanosecond:03}Z"


def fine_times(value: Any) -> Any:
    """Return *value* with a ``datetime`` or a ``FineTime`` for every ``msgpack.Timestamp``."""
    if isinstance(value, msgpack.Timestamp):
        if value.nanoseconds % 1000:
            return FineTime.of(value.seconds, value.nanoseconds)
        return value.to_datetime()
    return _each(fine_times, value)


def rounded(value: Any) -> Any:
    """Return *value* with a ``datetime`` for every ``FineTime``."""
    if isinstance(value, FineTime):
        parts = value.timetuple()[:6]
        return datetime(*parts, value.microsecond, tzinfo=UTC)
    return _each(rounded, value)


def _each(change: Any, value: Any) -> Any:
    if type(value) is list:
        return [change(inner) for inner in value]
    if type(value) is dict:
        return {key: change(inner) for key, inner in value.items()}
    return value
