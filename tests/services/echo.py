# SPDX-License-Identifier: Apache-2.0
"""Answers what it got."""

from servekit import Service


class Echo(Service):
    """Takes anything."""

    def predict(self, batch):
        return batch


class Sum(Service):
    """Answers the sum of ``x``."""

    def predict(self, batch):
        return [sum(item["x"]) for item in batch]
