# SPDX-License-Identifier: Apache-2.0
"""The load generator: separate processes send requests, and count and time the answers.

plan         requests, the server that gets them, how often
generating   starts the processes and adds up their reports
process      one of them: ``python -m servekit_bench.load.process``
loops        when it sends: closed loop, open loop
client       sends and receives: the hot path
connection   its sockets
answers      an answer that is not short and plain: parsed by llhttp
records      the report of one process
measurement  all reports together
"""

from servekit_bench.load.generating import generate
from servekit_bench.load.measurement import LoadFailure, Measurement
from servekit_bench.load.plan import ClosedLoop, Load, OpenLoop, Target, TimedRequest, Tls

__all__ = [
    "ClosedLoop",
    "Load",
    "LoadFailure",
    "Measurement",
    "OpenLoop",
    "Target",
    "TimedRequest",
    "Tls",
    "generate",
]
