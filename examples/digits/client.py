# SPDX-License-Identifier: Apache-2.0
"""Sends one held-out digit as JSON and one picture; needs scikit-learn for the digit."""

import json
import sys
import urllib.request
from pathlib import Path

from train import held_out

URL = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080/digits/predict"


def predict(body: bytes, content_type: str) -> dict:
    """Return the prediction for one request body."""
    request = urllib.request.Request(URL, body, {"Content-Type": content_type})  # noqa: S310
    with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310
        return json.load(answer)["prediction"]


images, labels = held_out()
array = json.dumps({"image": images[0].tolist()}).encode()
print("truth", labels[0], "predicted", predict(array, "application/json")["digit"])
picture = Path(__file__).with_name("three.png").read_bytes()
print("truth 3 predicted", predict(picture, "image/png")["digit"])
