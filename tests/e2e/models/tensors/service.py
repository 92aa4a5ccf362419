# SPDX-License-Identifier: Apache-2.0
"""Stages that return tensors of torch in every place."""

import torch

from servekit import Response, Service


class Network(Service):
    """Return tensors that need gradients, in bfloat16; the next stage stacks them."""

    def load(self, context):
        self.layer = torch.nn.Linear(2, 2, bias=False, dtype=torch.bfloat16)
        torch.nn.init.eye_(self.layer.weight)

    def predict(self, batch):
        return self.layer(torch.tensor(batch, dtype=torch.bfloat16))


class Stacked(Service):
    def predict(self, batch):
        return {"y": torch.from_numpy(batch["x"].astype("float32")) * 2}


class Outputs(Service):
    def predict(self, batch):
        return [self.made(name) for name in batch]

    def made(self, name):
        tensor = torch.tensor([[0.5, 1]], requires_grad=True)
        if name == "response":
            return Response(tensor, status=201)
        return {"mapping": {"a": [tensor, tensor[0, 0]]}, "sparse": tensor.to_sparse()}[name]


class Stream(Service):
    def stream(self, count):
        yield from torch.arange(count)
