# SPDX-License-Identifier: Apache-2.0
"""The loop of a worker that streams: it takes a turn over all streams, then reads new messages.

Its other requests, for methods that answer batches, are answered between two turns.
"""

import os
from typing import Any

from servekit.ipc.batches import Open, Part
from servekit.worker.prediction.current_batch import OpenItem
from servekit.worker.prediction.predictor import Predictor
from servekit.worker.prediction.runs import Run
from servekit.worker.serving.loaded import Loaded
from servekit.worker.serving.slot_server import SlotServer
from servekit.worker.streaming.stream import Stream
from servekit.worker.streaming.streams import ActiveStreams
from servekit.worker.transport.channel import FrontEndChannel

__all__ = ["StreamServer"]


class StreamServer(SlotServer):
    """Serves a loaded service some of whose outputs come one by one."""

    def __init__(self, loaded: Loaded, *arguments: Any) -> None:
        """Serve *loaded*; see ``BatchServer`` for the rest."""
        super().__init__(loaded, *arguments)
        self._slots, most_bytes = self._launch.max_batch_size, self._launch.max_answer_bytes
        self._streams = ActiveStreams(self._envelopes, self._slots, most_bytes)

    def run(self) -> int:
        """Serve until the supervisor says stop or is gone; return the exit status."""
        try:
            return super().run()
        finally:
            self._streams.close()

    def _serve(self, timeout_ms: int | None = None) -> None:
        super()._serve(0 if self._streams.is_busy else timeout_ms)
        if self._streams.is_busy and not self._is_stopping:
            self._turn()

    def _begin(
        self, channel: FrontEndChannel, message: Open, item: OpenItem, found: Predictor | Run
    ) -> bool:
        """Admit *item* as a stream, if *found* ends in a method that streams."""
        predictor, run = (found.last, found) if isinstance(found, Run) else (found, None)
        stepping = self._loaded.steppings.get(predictor)
        if stepping is None:
            return False
        stream = Stream(message, item, channel, predictor, run)
        stream.stepping = stepping
        stream.recorder = self._recorder_of(channel, (item,))
        self._streams.put(stream)
        return True

    def _close(self, channel: FrontEndChannel) -> None:
        super()._close(channel)
        self._streams.leave(channel)

    def _turn(self) -> None:
        found: dict[FrontEndChannel, list[Part]] = {}
        for stream, part in self._streams.turn():
            if part.end is not None and stream.recorder is not None:
                part.trace = stream.recorder.finish()
            found.setdefault(stream.channel, []).append(part)
        self._is_leaving |= self._streams.is_leaving
        if self._is_forked:  # a step forked, and this is the child; the parent answers
            os._exit(0)
        self._send_turn(found)
