# SPDX-License-Identifier: Apache-2.0
"""The benchmark's models, served by LitServe. Runs in LitServe's own environment."""

import os
from typing import Annotated

import litserve
from fastapi import Body
from models import MODELS

MODEL = os.environ["BENCH_MODEL"]
FORM = os.environ["BENCH_FORM"]
MAX_BATCH_SIZE = int(os.environ["BENCH_MAX_BATCH_SIZE"])
BATCH_TIMEOUT_S = 0.001  #: only a batch of more than one waits


class Json(litserve.LitAPI):
    """JSON bodies; LitServe hands over a list when it batches."""

    def setup(self, device):
        self.model = MODELS[MODEL]()

    def decode_request(self, request):
        return self.model.from_json(request)

    def batch(self, inputs):
        return inputs

    def unbatch(self, output):
        return output

    def predict(self, x):
        return self.model.predict([x])[0] if MAX_BATCH_SIZE == 1 else self.model.predict(x)

    def encode_response(self, output):
        return {"prediction": output}


class Binary(Json):
    """Bodies of bytes, which FastAPI passes on as they are."""

    def decode_request(self, request: Annotated[bytes, Body()]):
        return self.model.from_bytes(request, FORM)


if __name__ == "__main__":
    api = (Json if FORM == "json" else Binary)(
        max_batch_size=MAX_BATCH_SIZE,
        batch_timeout=BATCH_TIMEOUT_S if MAX_BATCH_SIZE > 1 else 0.0,
        api_path=f"/{MODEL}/predict",
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
