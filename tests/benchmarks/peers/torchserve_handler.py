# SPDX-License-Identifier: Apache-2.0
"""The benchmark's models, served by TorchServe. Runs in TorchServe's own environment."""

import os

from models import MODELS

# TorchServe hands no variables on; numpy, imported later, reads these
os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

FORMS = {"application/x-npy": "npy", "application/msgpack": "msgpack"}


class Handler:
    """Serves the model that the archive is named after; TorchServe has decoded JSON."""

    def initialize(self, context):
        self.model = MODELS[context.manifest["model"]["modelName"]]()

    def handle(self, requests, context):
        inputs = [self.read(item["body"], place, context) for place, item in enumerate(requests)]
        return [{"prediction": output} for output in self.model.predict(inputs)]

    def read(self, body, place, context):
        if isinstance(body, dict):
            return self.model.from_json(body)
        content_type = context.get_request_header(place, "Content-Type")
        return self.model.from_bytes(body, FORMS.get(content_type, "raw"))
