# SPDX-License-Identifier: Apache-2.0
"""Has the digits read that the classifier has never seen, as PNG files, and draws the outcome."""

import argparse
import io
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.client import HTTPConnection
from itertools import chain, repeat
from pathlib import Path
from statistics import median

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

CLIENTS = 8
STAGE = re.compile(r"(\w+);dur=([0-9.]+)")
SHOWN = 40


@dataclass
class Read:
    """One digit, and what the server said of it."""

    image: np.ndarray  #: [8, 8], 0 is paper, 16 ink
    truth: int
    words: str
    stages_ms: dict[str, float]

    @property
    def digit(self) -> int:
        """What it was taken for."""
        return int(self.words[0])


def read_some(server: str, images: list[tuple[np.ndarray, int]]) -> list[Read]:
    """Send *images* one after the other."""
    client = HTTPConnection(server, timeout=30)
    found = [read(client, image, truth) for image, truth in images]
    client.close()
    return found


def read(client: HTTPConnection, image: np.ndarray, truth: int) -> Read:
    """Send one digit as a picture of white paper."""
    file = io.BytesIO()
    Image.fromarray((255 - image * 255 / 16).astype(np.uint8)).save(file, "PNG")
    headers = {"Content-Type": "image/png", "Accept": "text/plain"}
    client.request("POST", "/digit-stages/predict", file.getvalue(), headers)
    answer = client.getresponse()
    words = answer.read().decode()
    if answer.status != 200:
        raise SystemExit(f"{answer.status}: {words}")
    stages = {name: float(ms) for name, ms in STAGE.findall(answer.headers["Server-Timing"])}
    return Read(image, truth, words, stages)


def draw(found: list[Read], file: Path) -> None:
    """Draw the first of *found*, wrong ones first and in red, and how long each stage took."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure = pyplot.figure(figsize=(9, 3.6))
    pictures, bars = figure.subfigures(1, 2, width_ratios=[3, 1.3])
    shown = sorted(found, key=lambda each: each.digit == each.truth)[:SHOWN]
    for axes, each in zip(pictures.subplots(4, SHOWN // 4).flat, shown, strict=True):
        axes.imshow(-each.image, cmap="gray")
        axes.set_title(each.digit, color="C0" if each.digit == each.truth else "C3", fontsize=11)
        axes.axis("off")
    axes = bars.subplots()
    times = stage_times(found)
    axes.barh(list(times), list(times.values()), color="C0")
    axes.invert_yaxis()
    axes.set_title("ms in each stage (median)", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    bars.subplots_adjust(left=0.32, right=0.95)
    figure.savefig(file)


def stage_times(found: list[Read]) -> dict[str, float]:
    """Return the median milliseconds of each stage."""
    return {name: median(each.stages_ms[name] for each in found) for name in found[0].stages_ms}


def main() -> None:
    """Have every held-out digit read, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("server", nargs="?", default="localhost:8080", help="HOST:PORT")
    parser.add_argument("--plot", type=Path, help="draw it too (matplotlib)")
    arguments = parser.parse_args()
    digits = load_digits()
    _, unseen, _, truth = train_test_split(digits.images, digits.target, random_state=0)
    images = list(zip(unseen, truth.tolist(), strict=True))
    parts = [images[first::CLIENTS] for first in range(CLIENTS)]
    with ThreadPoolExecutor(CLIENTS) as clients:
        found = list(chain(*clients.map(read_some, repeat(arguments.server), parts)))
    right = sum(each.digit == each.truth for each in found)
    print(f"{right} of {len(found)} digits read right ({right / len(found):.1%})")
    for name, ms in stage_times(found).items():
        print(f"{name:>10}: {ms:6.2f} ms (median)")
    if arguments.plot:
        draw(found, arguments.plot)


if __name__ == "__main__":
    main()
