# SPDX-License-Identifier: Apache-2.0
"""The state that the parts of one front-end share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import gevent

from servekit.frontend.batching.environment import BatchingEnvironment
from servekit.frontend.batching.samples import BatchSamples
from servekit.frontend.exchange.connections import OpenConnections
from servekit.frontend.exchange.date import HttpDate
from servekit.frontend.exchange.time_slices import TimeSlices
from servekit.frontend.memory.pressure import Pressure, QueueMemory
from servekit.frontend.metrics.trace_counts import TraceCounts
from servekit.frontend.routing.calls import ModelCalls
from servekit.frontend.routing.router import Router
from servekit.frontend.routing.table import Routing
from servekit.frontend.server.control import Control
from servekit.frontend.tracing.observer_port import ObserverPort
from servekit.frontend.tracing.traces import Traces
from servekit.ipc.busy_times import busy_poll_s
from servekit.ipc.control import PluginHooks

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from servekit.frontend.exchange.connection_shares import ConnectionShares
    from servekit.frontend.exchange.event_loop import EventLoop
    from servekit.ipc.counter_share import Share
    from servekit.ipc.counters import Counters
    from servekit.settings import Settings

__all__ = ["Core", "create_core"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Core:
    """Made once in each front-end process."""

    settings: Settings
    run_directory: Path
    loop: EventLoop
    counters: Counters  #: those of all front-ends
    share: Share  #: where this one counts
    control: Control
    routing: Routing
    connections: OpenConnections
    pressure: Pressure
    slices: TimeSlices
    date: HttpDate
    traces: Traces | None  #: if a plugin wants them


def create_core(
    settings: Settings,
    run_directory: Path,
    counters: Counters,
    observer_hooks: Sequence[str],
    shares: ConnectionShares | None = None,
) -> Core:
    """Connect to the supervisor of *run_directory*.

    :param counters: of all front-ends; this one has the share that was given last.
    :param observer_hooks: hooks of the observer that plugins implement.
    :param shares: of the connections, if there are several front-ends.
    """
    loop, share = gevent.get_hub().loop, counters.share(counters.last)
    control = Control(run_directory / "control.sock")
    control.say(PluginHooks(list(observer_hooks)))
    port = ObserverPort(run_directory / "observer.sock")
    samples = BatchSamples(port) if "batch_served" in observer_hooks else None
    traces = None
    if "request_traced" in observer_hooks:
        traces = Traces(port, settings.keep_bodies, TraceCounts(share))
    pressure = Pressure(settings.memory, settings.body_timeout)
    router = Router()
    environment = _batching(settings, loop, pressure, control, router, samples, traces)
    return Core(
        settings=settings,
        run_directory=run_directory,
        loop=loop,
        counters=counters,
        share=share,
        control=control,
        routing=Routing(environment, share, router),
        connections=OpenConnections(settings, shares),
        pressure=pressure,
        slices=TimeSlices(loop),
        date=HttpDate(),
        traces=traces,
    )


def _batching(
    settings: Settings,
    loop: EventLoop,
    pressure: Pressure,
    control: Control,
    router: Router,
    samples: BatchSamples | None,
    traces: Traces | None,
) -> BatchingEnvironment:
    """Return what all batchers share."""
    return BatchingEnvironment(
        loop=loop,
        pressure=pressure,
        queue_memory=QueueMemory(settings.queue_memory),
        report=control.say,
        busy_poll_s=busy_poll_s(settings.busy_poll),
        wake_timeout_s=settings.wake_timeout,
        begin_call=ModelCalls(router, traces).begin,
        front_ends=settings.front_ends,
        arena_bytes=settings.arena,
        large_body_bytes=settings.large_body,
        keep_bodies=settings.keep_bodies,
        samples=samples,
        traces=traces,
    )
