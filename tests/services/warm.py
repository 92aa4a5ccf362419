# SPDX-License-Identifier: Apache-2.0
"""Says how large its batches are."""

from servekit import Service


class UpTo8(Service):
    """Fails for more than eight inputs."""

    def predict(self, batch):
        print(f"batch of {len(batch)}")
        if len(batch) > 8:
            raise ValueError("too many")
        return batch
