# SPDX-License-Identifier: Apache-2.0
"""Services that fail to load, each in its way."""

import sys
from typing import TYPE_CHECKING

from servekit import Service

if TYPE_CHECKING:
    from decimal import Missing

NotAService = int


class NoPredict(Service):
    """Forgot it."""


class LoadRaises(Service):
    def load(self, context):
        return 1 / 0

    def predict(self, batch):
        return batch


class LoadExits(LoadRaises):
    def load(self, context):
        sys.exit("cannot go on")


class LoadInterrupts(LoadRaises):
    def load(self, context):
        raise KeyboardInterrupt


class WarmUpRaises(LoadRaises):
    def load(self, context):
        """Load nothing."""

    def warm_up(self):
        raise ValueError("cold\nand two lines")


class Unresolvable(Service):
    def predict(self, batch: "list[Missing]"):
        return batch


class BothDeclared(Service):
    signature = {"inputs": [{"name": "x", "dtype": "float32", "shape": []}]}  # noqa: RUF012

    def predict(self, batch: list[float]):
        return batch


class BadSignature(Service):
    signature = {"inputs": [{"name": "x", "dtype": "complex64", "shape": []}]}  # noqa: RUF012

    def predict(self, batch):
        return batch


class Closes(Service):
    """Says what happens to it."""

    def load(self, context):
        print(f"load {context.model} {context.version} {context.replica} {context.options}")

    def predict(self, batch):
        return batch

    def close(self):
        print("closed")
