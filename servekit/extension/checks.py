# SPDX-License-Identifier: Apache-2.0
"""The result of a check of ``servekit doctor``."""

from typing import Literal

from msgspec import Struct

__all__ = ["Diagnosis"]


class Diagnosis(Struct, frozen=True, kw_only=True):
    """Something that an operator should know."""

    severity: Literal["info", "warning", "error"]  #: error: it does not work, or will not
    text: str  #: the fact, with names and numbers
    meaning: str = ""  #: the consequence
    fix: str = ""  #: a command where there is one, otherwise what to change
