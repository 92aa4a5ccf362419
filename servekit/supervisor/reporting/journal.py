# SPDX-License-Identifier: Apache-2.0
"""The log of the supervisor; the command line decides how it is shown."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

__all__ = ["SERVER", "Journal", "LogPlace", "Notice"]


@dataclass(frozen=True, slots=True)
class LogPlace:
    """The part of a model that a line is about; empty for the server itself."""

    model: str = ""
    version: str = ""  #: "" while it is not known
    stage: str = ""  #: "" if the model has no others
    replica: int | None = None

    @property
    def fields(self) -> dict[str, str | int]:
        """The known members, by name."""
        found = {"model": self.model, "version": self.version, "stage": self.stage}
        known: dict[str, str | int] = {name: value for name, value in found.items() if value}
        return known if self.replica is None else known | {"replica": self.replica}


SERVER = LogPlace()


@dataclass(frozen=True, slots=True)
class Notice:
    """One event in the life of the server, a model, a replica or the front-end."""

    event: str  #: one word for machines: ``worker_exited``
    subject: str  #: ``digits/0``, ``digits``, ``front-end`` or ``servekit``
    text: str  #: the rest of the sentence that *subject* begins
    level: str = "info"  #: debug, info, warning or error
    fields: Mapping[str, object] = field(default_factory=dict)
    place: LogPlace = SERVER

    @property
    def members(self) -> dict[str, object]:
        """The place and the fields, for programs."""
        return {**self.place.fields, **self.fields}


class Journal(Protocol):
    """Shows notices and lines; must not block."""

    def attach(self, call_later: Callable[[float, Callable[[], object]], object]) -> None:
        """Use the timers of the event loop for what is shown later."""

    def notice(self, notice: Notice) -> None:
        """Show a notice."""

    def line(self, subject: str, line: str, place: LogPlace = SERVER) -> None:
        """Show a line that a child printed; its control characters are escaped already."""

    def progress(self, subject: str, text: str) -> None:
        """Show which step a loading model has reached; "" when it has loaded or failed."""
