# SPDX-License-Identifier: Apache-2.0
"""Asks another model."""

from servekit import Service


class Ask(Service):
    """Answers what the model ``other`` answers."""

    def load(self, context):
        self.context = context

    def predict(self, batch):
        return [self.context.call("other", each) for each in batch]

    def stand_in(self, model, value):
        return f"{model} for {value}"
