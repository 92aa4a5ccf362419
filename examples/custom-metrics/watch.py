# SPDX-License-Identifier: Apache-2.0
"""Sends the 150 irises of scikit-learn and draws the histogram that the service kept."""

import json
import re
import sys
import urllib.request

from sklearn.datasets import load_iris

URL = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080"
BUCKET = re.compile(r'servekit_model_margin_cm_bucket\{.*?le="([^"]+)".*?\} (\S+)')
WIDTH = 40


def predict(lengths: list[float]) -> None:
    """Ask what one flower is."""
    request = urllib.request.Request(  # noqa: S310
        f"{URL}/custom-metrics/predict",
        json.dumps({"x": lengths}).encode(),
        {"Content-Type": "application/json"},
    )
    urllib.request.urlopen(request, timeout=10).close()  # noqa: S310


for flower in load_iris().data.tolist():
    predict(flower)
with urllib.request.urlopen(f"{URL}/metrics", timeout=10) as answer:  # noqa: S310
    text = answer.read().decode()
before = 0.0
for bound, upto in BUCKET.findall(text):
    count = float(upto) - before
    before = float(upto)
    print(f"margin <= {bound:>4} cm  {int(count):4}  {'#' * int(count * WIDTH / 50)}")
