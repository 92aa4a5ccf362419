# SPDX-License-Identifier: Apache-2.0
"""Stages that show what reached them."""

import os
import time
from pathlib import Path

import numpy as np

from servekit import InputError, Service, endpoint


class Decode(Service):
    """Numbers to an array; ``n`` numbers, if it is told how many."""

    def predict(self, batch):
        return [self.decode(each) for each in batch]

    def decode(self, value):
        if not isinstance(value, dict):
            return InputError("an object is needed")
        if "n" in value:
            return np.arange(value["n"], dtype="float32")
        return value if "act" in value else np.array(value["x"], "float32")


class Infer(Service):
    """The sum, and who made it."""

    def load(self, context):
        self._context = context

    def predict(self, batch):
        if any(isinstance(each, dict) for each in batch):
            self.misbehave([each for each in batch if isinstance(each, dict)])
        return [self.infer(each, len(batch)) for each in batch]

    def infer(self, value, size):
        if isinstance(value, str):
            return {"letters": len(value)} if value else InputError("an empty word")
        if isinstance(value, dict):
            return value
        array = np.asarray(value)
        return {"sum": float(array.sum()), "dtype": array.dtype.name, "size": size}

    def misbehave(self, orders):
        if orders[0]["act"] == "die":
            os._exit(7)
        if orders[0]["act"] == "wait":
            self.wait_for_the_end(Path(orders[0]["file"]))
        elif orders[0]["act"] == "hold":
            self.hold(Path(orders[0]["file"]))
        else:
            time.sleep(orders[0]["seconds"])

    def wait_for_the_end(self, file):
        file.touch()
        (request,) = self._context.requests
        while not request.is_cancelled:
            time.sleep(0.005)
        file.write_text("gone")

    def hold(self, file):
        file.touch()
        until = time.monotonic() + 100
        while file.exists() and time.monotonic() < until:
            time.sleep(0.005)

    @endpoint("device")
    def device(self, batch: list[int]) -> list[str]:
        return [f"{os.environ['DEVICE']}/{each}" for each in batch]

    @endpoint(path="/v1/large")
    def large(self, batch: list[int]) -> list[bytes]:
        return [bytes(each) for each in batch]


class Format(Service):
    """The value under a name."""

    request_query = ("lang",)

    def load(self, context):
        self._context = context

    @endpoint("language")
    def language(self, batch):
        return [request.query.get("lang") for request in self._context.requests]

    def predict(self, batch):
        return [{"formatted": each} for each in batch]

    @endpoint("loud")
    def loud(self, batch: list[str]) -> list[str]:
        return [each.upper() for each in batch]


class Split(Service):
    """A text to its words."""

    def predict(self, batch):
        return [each.split(" ") for each in batch]
