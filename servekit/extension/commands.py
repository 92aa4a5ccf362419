# SPDX-License-Identifier: Apache-2.0
"""A command of ``servekit``, as a plugin offers it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable

__all__ = ["Command", "Configure", "Run"]

#: runs the command and returns the exit status; a ``StartupError`` is printed, one line of stderr
#: for each line of its text, and the status is then 3
Run: TypeAlias = "Callable[[Namespace], int]"
#: adds the arguments of the command to its parser, and returns what runs it
Configure: TypeAlias = "Callable[[ArgumentParser], Run]"


@dataclass(frozen=True, slots=True)
class Command:
    """A command as ``servekit --help`` lists it, and the import string of its code."""

    name: str  #: as it is typed: lower-case letters, digits and hyphens
    summary: str  #: what it does: one line without a capital letter or a full stop
    target: str  #: import string of a ``Configure`` function, imported when the command is used
