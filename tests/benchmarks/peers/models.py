# SPDX-License-Identifier: Apache-2.0
"""The benchmark's models as the peers serve them. Runs in each peer's own environment.

Each has ``from_json(value)``, ``from_bytes(body, form)`` and ``predict(inputs)``: one output
per input, in their order. numpy is imported only where a model needs it.
"""

import io

ARRAY = 78  #: the msgpack extension of an array: [dtype, shape, elements]


class Sum:
    """A handful of numbers as JSON; no arrays."""

    def from_json(self, value):
        return value["x"]

    def predict(self, inputs):
        return [sum(x) for x in inputs]


class Tensors:
    """The sum of one float32 array."""

    def __init__(self):
        import numpy

        self.numpy = numpy

    def from_json(self, value):
        return self.numpy.asarray(value["x"], self.numpy.float32)

    def from_bytes(self, body, form):
        if form == "npy":
            return self.numpy.load(io.BytesIO(body), allow_pickle=False)
        if form == "msgpack":
            import msgpack

            return msgpack.unpackb(body, ext_hook=self._array)["x"]
        return self.numpy.frombuffer(body, self.numpy.float32)

    def _array(self, code, payload):
        import msgpack

        dtype, shape, elements = msgpack.unpackb(payload)
        return self.numpy.frombuffer(elements, dtype).reshape(shape)

    def predict(self, inputs):
        return [float(x.sum()) for x in inputs]


class Mlp(Tensors):
    """The class that a network 784-256-10 finds for one row of 784 numbers."""

    def __init__(self):
        super().__init__()
        random = self.numpy.random.default_rng(1)
        self.hidden = random.standard_normal((784, 256), self.numpy.float32)
        self.last = random.standard_normal((256, 10), self.numpy.float32)

    def predict(self, inputs):
        rows = inputs[0][None] if len(inputs) == 1 else self.numpy.stack(inputs)
        hidden = self.numpy.maximum(rows @ self.hidden, 0)
        return (hidden @ self.last).argmax(axis=1).tolist()


class ArrayIn(Tensors):
    """The place of the largest element of one float32 array."""

    def predict(self, inputs):
        return [int(x.argmax()) for x in inputs]


class ArrayOut(Tensors):
    """A long array for ``[factor, count]``: so many fixed numbers, times the factor."""

    def __init__(self):
        super().__init__()
        random = self.numpy.random.default_rng(1)
        self.series = random.standard_normal(150_000, self.numpy.float32)

    def arrays(self, inputs):
        return [x[0] * self.series[: int(x[1])] for x in inputs]

    def predict(self, inputs):
        return [{"y": array.tolist()} for array in self.arrays(inputs)]


MODELS = {
    "sum": Sum,
    "tensors": Tensors,
    "copies": Tensors,
    "mlp": Mlp,
    "array-in": ArrayIn,
    "array-out": ArrayOut,
}
