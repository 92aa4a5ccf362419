# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a file that a client sent."""

__all__ = ["MediaRefused"]


class MediaRefused(ValueError):
    """The content is not what it should be, or too much of it; the message is for the client."""
