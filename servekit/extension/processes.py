# SPDX-License-Identifier: Apache-2.0
"""Processes of plugins, which the supervisor starts, watches and stops."""

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["ProcessOffer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessOffer:
    """A program of a plugin that runs beside the server: a gateway for another protocol, a relay.

    SIGTERM asks it to stop: it finishes what it has begun, within the grace period of the server,
    and exits. What it prints goes to the log of the server, line by line.
    """

    name: str  #: after that of the plugin, in the log and in ``/ping``: ``oip/grpc``
    module: str  #: run as ``python -m MODULE``, with the interpreter of the server
    arguments: Sequence[str] = ()  #: every user of the machine can read them: no secrets
    is_required: bool = True  #: the server is not ready while it does not run
