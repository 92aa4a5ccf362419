# SPDX-License-Identifier: Apache-2.0
"""The benchmark's model, served by LitServe. Runs in LitServe's own environment."""

import os

import litserve

MAX_BATCH_SIZE = int(os.environ["BENCH_MAX_BATCH_SIZE"])
BATCH_TIMEOUT_S = 0.001  #: only a batch of more than one waits


class Sum(litserve.LitAPI):
    """Answers the sum of ``x``; LitServe hands over a list when it batches."""

    def setup(self, device):
        """Nothing to load."""

    def decode_request(self, request):
        return request["x"]

    def predict(self, x):
        return sum(x) if MAX_BATCH_SIZE == 1 else [sum(values) for values in x]

    def encode_response(self, output):
        return {"prediction": output}


if __name__ == "__main__":
    api = Sum(
        max_batch_size=MAX_BATCH_SIZE,
        batch_timeout=BATCH_TIMEOUT_S if MAX_BATCH_SIZE > 1 else 0.0,
        api_path="/sum/predict",
    )
    server = litserve.LitServer(api, accelerator="cpu", workers_per_device=1, fast_queue=True)
    server.run(
        host="127.0.0.1",
        port=int(os.environ["BENCH_PORT"]),
        num_api_servers=len(os.sched_getaffinity(0)),
        log_level="warning",
        access_log=False,
        generate_client_file=False,
    )
