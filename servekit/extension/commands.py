# SPDX-License-Identifier: Apache-2.0
"""A command of ``servekit``, as a plugin offers it.

A ``StartupError`` that a command raises is printed, one line of stderr for each line of its text,
and the exit status is then 3.
"""

from servekit_archiver.commands import Command, Configure, Run

__all__ = ["Command", "Configure", "Run"]
