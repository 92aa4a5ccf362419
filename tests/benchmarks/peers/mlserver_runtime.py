# SPDX-License-Identifier: Apache-2.0
"""The benchmark's models, served by MLServer. Runs in MLServer's own environment."""

from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceResponse
from models import MODELS


class Runtime(MLModel):
    """Answers one output per row; MLServer puts the rows of a batch into one tensor."""

    async def load(self):
        self.model = MODELS[self.settings.name]()
        return True

    async def predict(self, payload):
        rows = NumpyCodec.decode_input(payload.inputs[0])
        inputs = rows.tolist() if self.settings.name == "sum" else list(rows)
        import numpy

        predict = getattr(self.model, "arrays", self.model.predict)
        outputs = numpy.array(predict(inputs)).reshape(len(inputs), -1)
        outputs = [NumpyCodec.encode_output("prediction", outputs)]
        return InferenceResponse(model_name=self.name, outputs=outputs)
