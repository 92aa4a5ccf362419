# SPDX-License-Identifier: Apache-2.0
"""``python save_models.py DIRECTORY``: writes MLflow models, one for each kind that is tested."""

import sys
from pathlib import Path

import mlflow.onnx
import mlflow.pyfunc
import mlflow.sklearn
import numpy as np
import pandas as pd
from mlflow.models import ModelSignature, infer_signature
from mlflow.types import ColSpec, ParamSchema, ParamSpec, Schema
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_iris
from sklearn.linear_model import LinearRegression, LogisticRegression

ROWS, LABELS = load_iris(return_X_y=True, as_frame=True)
ROWS.columns = ["sepal_length", "sepal_width", "petal_length", "petal_width"]
ROWS["sepal_length"] = ROWS["sepal_length"].astype("float64")


class Odd(mlflow.pyfunc.PythonModel):
    """Does what the text of each row says."""

    def predict(self, context, model_input, params=None):
        import datetime

        scale = (params or {}).get("scale", 1.0)
        odd = {
            "nan": float("nan"),
            "date": datetime.date(2026, 11, 22),
            "bytes": b"\x00\x01\xff",
            "rows": len(model_input),
            "object": object(),
            "nothing": None,
        }
        if "raise" in set(model_input["text"]):
            raise ValueError("as asked, with a secret")
        return [
            odd.get(text, number * scale)
            for number, text in zip(model_input["number"], model_input["text"], strict=True)
        ]


class Typed(mlflow.pyfunc.PythonModel):
    """Takes columns of the types that are not plain."""

    def predict(self, context, model_input, params=None):
        return model_input


def save(top: Path) -> None:
    """Write all models below *top*."""
    classifier = LogisticRegression(max_iter=500).fit(ROWS, LABELS)
    save_sklearn(top / "iris", classifier, ROWS, example=True)
    by_array = LogisticRegression(max_iter=500).fit(ROWS.to_numpy(), LABELS)
    save_sklearn(top / "arrays", by_array, ROWS.to_numpy())
    mlflow.sklearn.save_model(by_array, top / "unsigned", pip_requirements=["scikit-learn"])
    save_graph(top / "graph")
    regression = LinearRegression().fit(ROWS, ROWS[["petal_length", "petal_width"]])
    save_sklearn(top / "regression", regression, ROWS)
    signature = ModelSignature(
        Schema([ColSpec("double", "number"), ColSpec("string", "text")]),
        None,
        ParamSchema([ParamSpec("scale", "double", 1.0)]),
    )
    save_pyfunc(top / "odd", Odd(), signature)
    columns = {
        "flag": "boolean", "small": "integer", "large": "long", "single": "float", "text": "string",
        "when": "datetime", "raw": "binary",
    }  # fmt: skip
    schema = Schema([ColSpec(type_, name) for name, type_ in columns.items()])
    optional = Schema([*schema.inputs, ColSpec("double", "maybe", required=False)])
    save_pyfunc(top / "typed", Typed(), ModelSignature(optional))
    for path in top.glob("*/"):
        require_what_is_installed(path)


def save_sklearn(path: Path, model, rows, *, example=False) -> None:
    """Write an estimator with its signature."""
    signature = infer_signature(rows, model.predict(rows))
    given = rows.head(2) if isinstance(rows, pd.DataFrame) and example else None
    mlflow.sklearn.save_model(
        model, path, signature=signature, input_example=given, pip_requirements=["scikit-learn"]
    )


def require_what_is_installed(path: Path) -> None:
    """Name mlflow-skinny, which the tests install, where MLflow names itself."""
    requirements = path / "requirements.txt"
    requirements.write_text(requirements.read_text().replace("mlflow==", "mlflow-skinny=="))


def save_graph(path: Path) -> None:
    """Write an ONNX graph that multiplies rows of four numbers with a matrix."""
    given = helper.make_tensor_value_info("rows", TensorProto.FLOAT, ["n", 4])
    got = helper.make_tensor_value_info("sums", TensorProto.FLOAT, ["n", 2])
    weights = np.arange(8, dtype=np.float32).reshape(4, 2)
    node = helper.make_node("MatMul", ["rows", "weights"], ["sums"])
    initial = [numpy_helper.from_array(weights, "weights")]
    graph = helper.make_graph([node], "graph", [given], [got], initial)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    rows = {"rows": np.ones((2, 4), np.float32)}
    signature = infer_signature(rows, {"sums": rows["rows"] @ weights})
    mlflow.onnx.save_model(model, path, signature=signature, pip_requirements=["onnxruntime"])


def save_pyfunc(path: Path, model, signature) -> None:
    """Write a model of our own."""
    mlflow.pyfunc.save_model(
        path, python_model=model, signature=signature, pip_requirements=["scikit-learn"]
    )


if __name__ == "__main__":
    save(Path(sys.argv[1]))
