# SPDX-License-Identifier: Apache-2.0
"""The benchmark's model, served by servekit."""

from servekit import Service


class Sum(Service):
    """Answers the sum of ``x``."""

    def predict(self, batch):
        return [sum(item["x"]) for item in batch]
