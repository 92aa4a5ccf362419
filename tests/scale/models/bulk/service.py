# SPDX-License-Identifier: Apache-2.0
"""Large bodies in, large answers out, and no work between."""

from servekit import Service


class Bulk(Service):
    """Answers the length of a body of bytes, or a text as long as ``{"bytes": N}`` says."""

    def predict(self, batch):
        return ["x" * item["bytes"] if isinstance(item, dict) else len(item) for item in batch]
