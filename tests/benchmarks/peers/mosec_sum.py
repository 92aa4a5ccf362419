# SPDX-License-Identifier: Apache-2.0
"""The benchmark's model, served by mosec. Runs in mosec's own environment."""

import os

from mosec import Server, Worker

MAX_BATCH_SIZE = int(os.environ["BENCH_MAX_BATCH_SIZE"])
MAX_WAIT_MS = 1  # only a batch of more than one waits


class One(Worker):
    """One input at a time."""

    def forward(self, data):
        return {"prediction": sum(data["x"])}


class Many(Worker):
    """A batch of inputs, in arrival order."""

    def forward(self, data):
        return [{"prediction": sum(item["x"])} for item in data]


if __name__ == "__main__":
    server = Server()
    if MAX_BATCH_SIZE == 1:
        server.append_worker(One, num=1, route="/sum/predict")
    else:
        server.append_worker(
            Many,
            num=1,
            max_batch_size=MAX_BATCH_SIZE,
            max_wait_time=MAX_WAIT_MS,
            route="/sum/predict",
        )
    server.run()
