# SPDX-License-Identifier: Apache-2.0
"""The value of ``Date`` (RFC 9110 6.6.1), made once a second."""

from email.utils import formatdate

__all__ = ["HttpDate"]


class HttpDate:
    """The current second as ``Date`` states it; the front-end's timer renews it."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        """Start with the current second."""
        self.renew()

    def renew(self) -> None:
        """Take the current second."""
        self.value = formatdate(usegmt=True).encode()
