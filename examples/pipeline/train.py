# SPDX-License-Identifier: Apache-2.0
"""Trains a classifier of handwritten digits and writes it as ``weights/weights.npy``."""

from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

FILE = Path(__file__).with_name("weights") / "weights.npy"
INK = 16.0


def main() -> float:
    """Train, save, and return the accuracy on the held-out images."""
    images, labels = load_digits(return_X_y=True)
    images, unseen, labels, truth = train_test_split(images / INK, labels, random_state=0)
    model = LogisticRegression(max_iter=500).fit(images, labels)
    FILE.parent.mkdir(exist_ok=True)
    np.save(FILE, np.vstack([model.coef_.T, model.intercept_]).astype(np.float32))
    return model.score(unseen, truth)


if __name__ == "__main__":
    print(f"{FILE.name}: {main():.1%} of the held-out digits are read right")
