# SPDX-License-Identifier: Apache-2.0
"""Trains a small convolutional network on handwritten digits and writes it as ``digits.pt2``."""

from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn
from torch.export import Dim, export, save

FILE = Path(__file__).with_name("digits.pt2")
INK = 16.0
EPOCHS = 30


class Digits(nn.Module):
    """Tells which digit an 8x8 image shows. Scaling is inside: clients send plain images."""

    def __init__(self) -> None:
        """Make the layers."""
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(512, 10),
        )

    def scores(self, image: Tensor) -> Tensor:
        """Return a score for each digit, ``[n, 10]``."""
        return self.layers(image.unsqueeze(1) / INK)

    def forward(self, image: Tensor) -> dict[str, Tensor]:
        """Return the digit of each image ``[n, 8, 8]``, and the probabilities of all digits."""
        scores = self.scores(image)
        return {"digit": scores.argmax(1), "probabilities": scores.softmax(1)}


def split() -> list[Tensor]:
    """Return training images, held-out images, training labels, held-out labels."""
    digits = load_digits()
    images, labels = digits.images.astype(np.float32), digits.target
    parts = train_test_split(images, labels, test_size=0.2, random_state=0, stratify=labels)
    return [torch.from_numpy(part) for part in parts]


def train(images: Tensor, labels: Tensor) -> Digits:
    """Fit the network."""
    torch.manual_seed(0)
    model = Digits()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    for _ in range(EPOCHS):
        for places in torch.randperm(len(images)).split(64):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model.scores(images[places]), labels[places]).backward()
            optimizer.step()
    return model.eval()


def main() -> float:
    """Train, export, and return the accuracy on the held-out images."""
    images, unseen, labels, truth = split()
    model = train(images, labels)
    program = export(model, (images[:2],), dynamic_shapes={"image": {0: Dim("batch")}})
    save(program, FILE)
    return (program.module()(unseen)["digit"] == truth).float().mean().item()


if __name__ == "__main__":
    print(f"{FILE.name}: {main():.1%} of the held-out digits are read right")
