# SPDX-License-Identifier: Apache-2.0
"""Trains the classifier on scikit-learn's handwritten digits and writes ``digits.joblib``."""

from pathlib import Path

import joblib
import numpy as np
from sklearn.datasets import load_digits
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

FILE = Path(__file__).with_name("digits.joblib")


def split() -> list[np.ndarray]:
    """Return training images, held-out images, training labels, held-out labels."""
    images, labels = load_digits(return_X_y=True)
    return train_test_split(images, labels, test_size=0.2, random_state=0, stratify=labels)


def held_out() -> tuple[np.ndarray, np.ndarray]:
    """Return the images ``[n, 8, 8]`` that the classifier has never seen, and their labels."""
    _, images, _, labels = split()
    return images.reshape(-1, 8, 8), labels


def main() -> float:
    """Train, save, and return the accuracy on the held-out images."""
    images, unseen, labels, truth = split()
    kernel = Nystroem(gamma=0.001, n_components=300, random_state=0)
    model = make_pipeline(kernel, LogisticRegression(C=10, max_iter=2000)).fit(images, labels)
    joblib.dump(model, FILE)
    return model.score(unseen, truth)


if __name__ == "__main__":
    print(f"{FILE.name}: {main():.1%} of the held-out digits are read right")
