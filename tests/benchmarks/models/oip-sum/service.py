# SPDX-License-Identifier: Apache-2.0
"""The benchmark's model with a signature, served by servekit."""

from servekit import Service


class SignedSum(Service):
    """Answers the sum of each row."""

    def predict(self, batch):
        return batch["x"].sum(axis=1)
