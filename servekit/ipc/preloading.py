# SPDX-License-Identifier: Apache-2.0
"""Messages between the supervisor and a preloaded parent of workers.

The parent gets the ``Launch`` of a worker on its control channel, imports the service, and answers
once. Then each ``Fork`` comes by a socket of packets, with three descriptors: the worker's control
channel, its listener and its output. The answer is the worker's pid, in 4 bytes.
"""

from msgspec import Struct

__all__ = ["PID_BYTES", "Fork", "NotPreloaded", "Preloaded"]

PID_BYTES = 4


class Preloaded(Struct, array_like=True, tag=50):
    """The imports are done, and workers can be forked."""

    import_s: float


class NotPreloaded(Struct, array_like=True, tag=51):
    """Workers cannot be forked; the process ends."""

    reason: str


class Fork(Struct, array_like=True, tag=52):
    """Start a worker."""

    environment: dict[str, str]  #: all of it
    parent: int  #: the supervisor, whose child the worker becomes
