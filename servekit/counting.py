# SPDX-License-Identifier: Apache-2.0
"""How a count is written."""

__all__ = ["counted"]


def counted(count: int, noun: str, nouns: str = "") -> str:
    """Return ``1 line`` or ``2 lines``; *nouns* is the plural if it is another one."""
    return f"{count} {noun}" if count == 1 else f"{count} {nouns or noun + 's'}"
