# SPDX-License-Identifier: Apache-2.0
"""Trains a network to guess the next letter of ``alice.txt``, and writes ``weights/``."""

from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
WINDOW, EMBEDDED, HIDDEN = 8, 16, 512  # letters looked at, numbers for each, units
STEPS, BATCH, RATE = 2500, 128, 3e-3
NOISE = 0.02  # of the letters looked at are wrong: so it learns to go on after a mistake


def windows(text: str, letters: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return every run of ``WINDOW`` letters ``[n, WINDOW]``, and the letter after it ``[n]``."""
    numbers = np.array([letters.index(letter) for letter in text])
    seen = np.lib.stride_tricks.sliding_window_view(numbers, WINDOW)[:-1]
    return seen, numbers[WINDOW:]


def gradients(
    weights: list[np.ndarray], seen: np.ndarray, after: np.ndarray
) -> tuple[float, list[np.ndarray]]:
    """Return the loss, in nats for each letter, and how it changes with the weights."""
    embed, hidden, output = weights
    inputs = embed[seen].reshape(len(seen), -1)
    units = np.tanh(inputs @ hidden)
    scores = units @ output
    guesses = np.exp(scores - scores.max(axis=1, keepdims=True))
    guesses /= guesses.sum(axis=1, keepdims=True)
    rows = np.arange(len(seen))
    loss = float(-np.log(guesses[rows, after]).mean())
    guesses[rows, after] -= 1
    guesses /= len(seen)
    from_units = guesses @ output.T * (1 - units**2)
    by_letter = np.zeros_like(embed)
    np.add.at(by_letter, seen, (from_units @ hidden.T).reshape(*seen.shape, EMBEDDED))
    return loss, [by_letter, inputs.T @ from_units, units.T @ guesses]


def main() -> float:
    """Train (by Adam), save, and return the last loss."""
    text = (HERE / "alice.txt").read_text(encoding="utf-8")
    letters = sorted(set(text))
    seen, after = windows(text, letters)
    random = np.random.default_rng(0)
    shapes = (len(letters), EMBEDDED), (WINDOW * EMBEDDED, HIDDEN), (HIDDEN, len(letters))
    weights = [random.normal(0, 0.08, shape).astype("float32") for shape in shapes]
    means = [np.zeros_like(each) for each in weights]
    squares = [np.zeros_like(each) for each in weights]
    loss = 0.0
    for step in range(1, STEPS + 1):
        chosen = random.integers(0, len(seen), BATCH)
        wrong = random.random((BATCH, WINDOW)) < NOISE
        looked_at = np.where(wrong, random.integers(0, len(letters), wrong.shape), seen[chosen])
        loss, slopes = gradients(weights, looked_at, after[chosen])
        for each, slope, mean, square in zip(weights, slopes, means, squares, strict=True):
            mean += 0.1 * (slope - mean)
            square += 0.01 * (slope**2 - square)
            each -= RATE * (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.99**step)) + 1e-8)
    (HERE / "weights").mkdir(exist_ok=True)
    codes = np.array([ord(letter) for letter in letters], "int32")
    names = ("letters", "embed", "hidden", "output")
    for name, array in zip(names, (codes, *weights), strict=True):
        np.save(HERE / "weights" / f"{name}.npy", array)
    return loss


if __name__ == "__main__":
    print(f"weights: {main():.2f} nats for each letter")
