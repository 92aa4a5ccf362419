# SPDX-License-Identifier: Apache-2.0
"""Prints how alike a few sentences are."""

import json
import sys
import urllib.request

URL = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080/embeddings/predict"
SENTENCES = [
    "How do I get my money back?",
    "What is your refund policy?",
    "The cat sleeps on the sofa.",
]


def embed(text: str) -> list[float]:
    """Return the 384 numbers of *text*."""
    request = urllib.request.Request(URL, text.encode(), {"Content-Type": "text/plain"})  # noqa: S310
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
        return json.load(answer)["prediction"]


first, *others = [embed(text) for text in SENTENCES]
print(SENTENCES[0])
for text, other in zip(SENTENCES[1:], others, strict=True):
    print(f"  {sum(a * b for a, b in zip(first, other, strict=True)):+.2f}  {text}")
