# SPDX-License-Identifier: Apache-2.0
"""Trains a small network on handwritten digits and writes it as ``mlp.onnx``."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

FILE = Path(__file__).with_name("mlp.onnx")
INK = 16.0


def split() -> list[np.ndarray]:
    """Return training images, held-out images, training labels, held-out labels."""
    images, labels = load_digits(return_X_y=True)
    return train_test_split(images, labels, test_size=0.2, random_state=0, stratify=labels)


def train(images: np.ndarray, labels: np.ndarray) -> MLPClassifier:
    """Fit two layers on values from 0 to 1."""
    network = MLPClassifier((64,), max_iter=400, random_state=0)
    return network.fit(images / INK, labels)


def export(network: MLPClassifier) -> onnx.ModelProto:
    """Return the graph: scaling and flattening inside, so a client sends plain images."""
    arrays = {
        "ink": np.float32(INK),
        "w1": network.coefs_[0], "b1": network.intercepts_[0],
        "w2": network.coefs_[1], "b2": network.intercepts_[1],
    }  # fmt: skip
    nodes = [
        helper.make_node("Flatten", ["image"], ["flat"]),
        helper.make_node("Div", ["flat", "ink"], ["x"]),
        helper.make_node("Gemm", ["x", "w1", "b1"], ["hidden"]),
        helper.make_node("Relu", ["hidden"], ["active"]),
        helper.make_node("Gemm", ["active", "w2", "b2"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["probabilities"]),
        helper.make_node("ArgMax", ["scores"], ["digit"], axis=1, keepdims=0),
    ]
    graph = helper.make_graph(
        nodes,
        "mlp",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 8, 8])],
        [
            helper.make_tensor_value_info("digit", TensorProto.INT64, ["batch"]),
            helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["batch", 10]),
        ],
        [
            numpy_helper.from_array(np.asarray(array, np.float32), name)
            for name, array in arrays.items()
        ],
    )
    opset = helper.make_opsetid("", 17)
    return helper.make_model(graph, opset_imports=[opset], ir_version=9)


def main() -> float:
    """Train, export, and return the accuracy on the held-out images."""
    images, unseen, labels, truth = split()
    network = train(images, labels)
    model = export(network)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, FILE)
    return network.score(unseen / INK, truth)


if __name__ == "__main__":
    print(f"{FILE.name}: {main():.1%} of the held-out digits are read right")
