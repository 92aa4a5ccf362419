# SPDX-License-Identifier: Apache-2.0
"""The value of ``Date`` (RFC 9110 6.6.1), made once a second."""

from email.utils import formatdate

__all__ = ["HttpDate"]


class HttpDate:
    """The present second as ``Date`` states it; whoever keeps time renews it."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        """Start with the present second."""
        self.renew()

    def renew(self) -> None:
        """Take the present second."""
        self.value = formatdate(usegmt=True).encode()
