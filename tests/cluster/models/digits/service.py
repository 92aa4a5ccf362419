# SPDX-License-Identifier: Apache-2.0
"""Returns its input and the version that answers, after a while."""

import time
from dataclasses import dataclass

from servekit import Service


@dataclass
class Options:
    """How much time and memory it takes."""

    load_s: float = 0.0
    predict_s: float = 0.02
    slow_s: float = 2.0  #: for numbers that end with 99


class Digits(Service):
    """A negative number takes so many MiB of memory."""

    def load(self, context):
        """Take as long as the options say."""
        self._options = context.read_options(Options)
        self._version = context.version
        time.sleep(self._options.load_s)

    def predict(self, batch):
        """Wait, and return the numbers."""
        taken = [b"x" * (-number << 20) for number in batch if number < 0]
        is_slow = any(number % 100 == 99 for number in batch)
        time.sleep(self._options.slow_s if is_slow else self._options.predict_s)
        taken.clear()
        return [{"n": number, "version": self._version} for number in batch]
