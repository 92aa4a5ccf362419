# SPDX-License-Identifier: Apache-2.0
"""The benchmark's models, served by mosec. Runs in mosec's own environment."""

import os

import numpy
from models import MODELS
from mosec import Server, Worker

MODEL = os.environ["BENCH_MODEL"]
FORM = os.environ["BENCH_FORM"]
MAX_BATCH_SIZE = int(os.environ["BENCH_MAX_BATCH_SIZE"])
MAX_WAIT_MS = 1  # only a batch of more than one waits


class One(Worker):
    """One input at a time."""

    def __init__(self):
        super().__init__()
        self.model = MODELS[MODEL]()

    def deserialize(self, data):
        if FORM == "json":
            return self.model.from_json(super().deserialize(data))
        return self.model.from_bytes(data, FORM)

    def forward(self, data):
        return {"prediction": self.model.predict([data])[0]}


class Many(One):
    """A batch of inputs, in arrival order."""

    def forward(self, data):
        return [{"prediction": output} for output in self.model.predict(data)]


class Decode(Worker):
    """An object to an array; the first of three stages."""

    def forward(self, data):
        items = data if isinstance(data, list) else [data]
        arrays = [numpy.array(item["x"], numpy.float32) for item in items]
        return arrays if isinstance(data, list) else arrays[0]


class Infer(Worker):
    """The sums of a batch of arrays."""

    def forward(self, data):
        return list(numpy.stack(data).sum(axis=1)) if isinstance(data, list) else data.sum()


class Format(Worker):
    """A number of numpy's to the answer."""

    def forward(self, data):
        if isinstance(data, list):
            return [{"prediction": float(item)} for item in data]
        return {"prediction": float(data)}


if __name__ == "__main__":
    server, route = Server(), f"/{MODEL}/predict"
    if MODEL in ("pipeline", "apart"):  # its stages are always processes of their own
        batching = {} if MAX_BATCH_SIZE == 1 else {
            "max_batch_size": MAX_BATCH_SIZE, "max_wait_time": MAX_WAIT_MS,
        }  # fmt: skip
        for stage in (Decode, Infer, Format):
            server.append_worker(stage, num=1, route=route, **batching)
    elif MAX_BATCH_SIZE == 1:
        server.append_worker(One, num=1, route=route)
    else:
        server.append_worker(
            Many, num=1, max_batch_size=MAX_BATCH_SIZE, max_wait_time=MAX_WAIT_MS, route=route
        )
    server.run()
