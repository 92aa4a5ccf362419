# SPDX-License-Identifier: Apache-2.0
"""The benchmark's models, served by Triton's Python backend. Runs in its stub process."""

import os
import sys

sys.path += os.environ["BENCH_PATH"].split(os.pathsep)  # the backend passes no PYTHONPATH on

import numpy
import triton_python_backend_utils as triton
from models import MODELS


class TritonPythonModel:
    """One row in, one row out; Triton hands over the requests of a batch together."""

    def initialize(self, args):
        self.name = args["model_name"]
        self.model = MODELS[self.name]()
        self.predict = getattr(self.model, "arrays", self.model.predict)

    def execute(self, requests):
        rows = [triton.get_input_tensor_by_name(each, "x").as_numpy()[0] for each in requests]
        inputs = [row.tolist() for row in rows] if self.name == "sum" else rows
        return [self.answer(output) for output in self.predict(inputs)]

    def answer(self, output):
        is_array = isinstance(output, numpy.ndarray)
        row = output[None] if is_array else numpy.array([[output]], numpy.float64)
        return triton.InferenceResponse([triton.Tensor("prediction", row)])
