# SPDX-License-Identifier: Apache-2.0
"""The benchmark's models in a bare Flask app, predicted in process. Run by gunicorn."""

import os

from flask import Flask, request
from models import MODELS

MODEL = os.environ["BENCH_MODEL"]
FORM = os.environ["BENCH_FORM"]

app = Flask("bench")
model = MODELS[MODEL]()


def read():
    """Return the input of the current request."""
    return model.from_json(request.json) if FORM == "json" else model.from_bytes(request.data, FORM)


@app.post(f"/{MODEL}/predict")
def predict():
    return {"prediction": model.predict([read()])[0]}


@app.get("/ping")
def ping():
    return {"health": "healthy!"}
