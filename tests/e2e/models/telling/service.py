# SPDX-License-Identifier: Apache-2.0
"""A stage whose outputs come one by one, between others."""

import os
import time
from collections.abc import Iterator

from servekit import InputError, Response, Service, endpoint


class Split(Service):
    """A text to its words."""

    def predict(self, batch: list[str]) -> list[list[str]]:
        return [each.split(" ") for each in batch]


class Tell(Service):
    """Yields the words."""

    def load(self, context):
        self._told = context.metrics.counter("told", "Words told")

    def stream(self, words: list[str] | str) -> Iterator[str]:
        for word in words:
            if word == "stop":
                raise InputError("a story must not stop")
            if word == "die":
                os._exit(7)
            while word == "on":
                time.sleep(0.001)
                yield word
            self._told.inc()
            yield word

    @endpoint("count")
    def count(self, batch: list[str]) -> list[int]:
        return [Response(len(each), 201, {"X-Counted": "letters"}) for each in batch]


class Join(Service):
    """The words, or the letters, in one."""

    def predict(self, batch):
        return ["-".join(each) for each in batch]
