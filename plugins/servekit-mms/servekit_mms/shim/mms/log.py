# SPDX-License-Identifier: Apache-2.0
"""The logger of services."""

import logging

__all__ = ["getLogger", "get_logger"]


def get_logger(name: str = "mms") -> logging.Logger:
    """Return a logger, whose lines appear in the log of the server."""
    return logging.getLogger(name)


getLogger = get_logger  # noqa: N816 - the older name in MMS
