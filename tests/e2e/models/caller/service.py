# SPDX-License-Identifier: Apache-2.0
"""A model whose routes lead through other models."""

from servekit import Service


class Wrap(Service):
    """Puts numbers where ``stages`` looks for them."""

    def predict(self, batch):
        return [{"x": each} if isinstance(each, list) else each for each in batch]
