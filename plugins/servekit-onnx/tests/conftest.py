# SPDX-License-Identifier: Apache-2.0
"""Writes small graphs and loads the service as a worker would, in this process."""

import logging

import onnx
import pytest
from onnx import TensorProto, helper
from servekit_onnx.service import OnnxService

from servekit import Context

INFO = helper.make_tensor_value_info
TYPES = {
    "f": TensorProto.FLOAT,
    "i": TensorProto.INT64,
    "s": TensorProto.STRING,
    "u": TensorProto.UINT8,
}


def values(text):
    """Describe inputs or outputs: ``x f n 2`` is a float tensor ``x`` of shape ``[n, 2]``."""
    fields = [part.split() for part in text.split(",")]
    return [
        INFO(name, TYPES[kind], [int(axis) if axis.isdigit() else axis for axis in axes])
        for name, kind, *axes in fields
    ]


@pytest.fixture
def write_graph(tmp_path):
    """Return ``write_graph(inputs, outputs, *nodes)``, which writes ``model.onnx``.

    A node is its kind, inputs and outputs, and perhaps a ``dict`` of attributes.
    """

    def write(inputs, outputs, *nodes, weights=(), **how):
        made = [
            helper.make_node(kind, takes.split(), gives.split(), **dict(*attributes))
            for kind, takes, gives, *attributes in nodes
        ]
        graph = helper.make_graph(made, "test", values(inputs), values(outputs), list(weights))
        opset = helper.make_opsetid("", 17)
        model = helper.make_model(graph, opset_imports=[opset], ir_version=9)
        onnx.save(model, tmp_path / "model.onnx", **how)

    return write


@pytest.fixture
def load(tmp_path):
    """Return ``load(**options)``, which gives a service that has loaded ``model.onnx``."""

    def load_graph(signature=None, replicas=1, **options):
        service = OnnxService()
        service.signature = signature
        service.load(_context(tmp_path, replicas, options))
        service.warm_up()
        return service

    return load_graph


def _context(directory, replicas, options):
    return Context(
        model="m", version="1.0", directory=directory, replica=0, max_batch_size=32,
        threads=1, options=options, logger=logging.getLogger("m"), replicas=replicas,
    )  # fmt: skip
