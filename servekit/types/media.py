# SPDX-License-Identifier: Apache-2.0
"""The error for a file that a client sent."""

__all__ = ["MediaRefused"]


class MediaRefused(ValueError):
    """The content is malformed or too large; the message is for the client."""
