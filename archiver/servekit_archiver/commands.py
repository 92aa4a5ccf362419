# SPDX-License-Identifier: Apache-2.0
"""A command, as a plugin offers it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable, Iterable
    from typing import Any

__all__ = ["Check", "Command", "Configure", "Run"]

#: runs the command and returns the exit status
Run: TypeAlias = "Callable[[Namespace], int]"
#: adds the arguments of the command to its parser, and returns what runs it
Configure: TypeAlias = "Callable[[ArgumentParser], Run]"
#: checks an open ``Archive`` whose content is sound; returns lines to print, or raises an
#: ``ArchiveError``
Check: TypeAlias = "Callable[[Any, Namespace], Iterable[str]]"


@dataclass(frozen=True, slots=True)
class Command:
    """A command as ``servekit --help`` lists it, and the import string of its code."""

    name: str  #: as it is typed: lower-case letters, digits and hyphens
    summary: str  #: what it does: one line without a capital letter or a full stop
    target: str  #: import string of a ``Configure`` function, imported when the command is used
    is_of_archives: bool = False  #: ``servekit-archive`` has it, too
    #: it asks a running server: its parser gets ``--run-dir``, ``--pid``, ``--server`` and
    #: ``--json`` before its own arguments, and ``parsed.find_server(parsed)`` returns a
    #: ``servekit.extension.RunningServer``
    asks_server: bool = False
