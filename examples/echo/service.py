# SPDX-License-Identifier: Apache-2.0
"""The smallest service there is."""

from typing import Any

from servekit import Service


class Echo(Service):
    """Answers every input with itself."""

    def predict(self, batch: list[Any]) -> list[Any]:
        """Return the inputs, whatever they are: one output per input, same order."""
        return batch
