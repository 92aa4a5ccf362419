# SPDX-License-Identifier: Apache-2.0
"""Trains a small network on pictures of handwritten digits and writes it as ``digits.onnx``."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

FILE = Path(__file__).with_name("digits.onnx")
INK = 16.0


def split() -> list[np.ndarray]:
    """Return pictures for training, held-out pictures, and the digits on both.

    A pixel is 0 for ink and 1 for paper, as servekit reads dark ink on white paper.
    """
    images, digits = load_digits(return_X_y=True)
    return train_test_split(
        1 - images / INK, digits, test_size=0.2, random_state=0, stratify=digits
    )


def export(network: MLPClassifier) -> onnx.ModelProto:
    """Return the graph: a picture of one channel in, a score for each digit out."""
    arrays = {
        "w1": network.coefs_[0], "b1": network.intercepts_[0],
        "w2": network.coefs_[1], "b2": network.intercepts_[1],
    }  # fmt: skip
    nodes = [
        helper.make_node("Flatten", ["picture"], ["x"]),
        helper.make_node("Gemm", ["x", "w1", "b1"], ["hidden"]),
        helper.make_node("Relu", ["hidden"], ["active"]),
        helper.make_node("Gemm", ["active", "w2", "b2"], ["scores"]),
    ]
    graph = helper.make_graph(
        nodes,
        "digits",
        [helper.make_tensor_value_info("picture", TensorProto.FLOAT, ["batch", 1, 8, 8])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", 10])],
        [
            numpy_helper.from_array(np.asarray(array, np.float32), name)
            for name, array in arrays.items()
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def main() -> float:
    """Train, export, and return the accuracy on the held-out pictures."""
    pictures, unseen, digits, truth = split()
    network = MLPClassifier((64,), max_iter=1000, random_state=0).fit(pictures, digits)
    model = export(network)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, FILE)
    return network.score(unseen, truth)


if __name__ == "__main__":
    print(f"{FILE.name}: {main():.1%} of the held-out digits are read right")
