# SPDX-License-Identifier: Apache-2.0
"""Takes its time over each batch, and remembers what it ran; dies when told to."""

import os
import time
from collections import deque
from pathlib import Path

from servekit import Service


class Work(Service):
    """A batch takes as long as its slowest input says, or else the option ``seconds``.

    An input may name a file, ``begun``, which is there from when its batch has begun.
    """

    def load(self, context):
        self.seconds = context.options["seconds"]
        self.version = context.version
        self.ran = deque(maxlen=5000)

    def predict(self, batch):
        items = [item if isinstance(item, dict) else {} for item in batch]
        began = time.monotonic()
        for item in items:
            if "exit" in item:
                os._exit(item["exit"])
        for path in (item["begun"] for item in items if "begun" in item):
            Path(path).touch()
        self.ran += [(item.get("id"), began) for item in items]
        time.sleep(max(item.get("seconds", self.seconds) for item in items))
        return [self.answer(item) for item in items]

    def answer(self, item):
        """Say who asked; ``list`` asks for all that ran, and when it began."""
        answer = {"id": item.get("id"), "version": self.version}
        if "answer_bytes" in item:
            answer["x"] = "x" * item["answer_bytes"]
        return answer | ({"ran": list(self.ran)} if item.get("list") else {})
