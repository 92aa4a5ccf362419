# SPDX-License-Identifier: Apache-2.0
"""The benchmark's model, served by TorchServe. Runs in TorchServe's own environment."""


class Sum:
    """Answers the sum of ``x``; TorchServe has decoded the JSON."""

    def initialize(self, context):
        """Nothing to load."""

    def handle(self, data, context):
        return [{"prediction": sum(item["body"]["x"])} for item in data]
