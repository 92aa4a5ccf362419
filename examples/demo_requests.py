# SPDX-License-Identifier: Apache-2.0
"""The requests of the demo: a few digits beside the truth, then all of them at once."""

import contextlib
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from io import BytesIO
from pathlib import Path

import numpy as np
from local_server import DemoError
from PIL import Image

sys.path.insert(0, str(Path(__file__).parent / "digits"))

import train

__all__ = ["predict_burst", "predict_some", "train"]

SHOWN = 8
BURST = 64
EXPECTED = 0.95
JSON = "application/json"


def predict(connection: HTTPConnection, body: bytes, content_type: str) -> tuple[dict, str]:
    """Return the prediction for *body*, and where its time went."""
    try:
        connection.request("POST", "/digits/predict", body, {"Content-Type": content_type})
        answer = connection.getresponse()
        text = answer.read()
    except OSError as error:
        raise DemoError(f"no answer: {error}") from error
    if answer.status != 200:
        raise DemoError(f"status {answer.status}: {text.decode()}")
    return json.loads(text)["prediction"], answer.headers["Server-Timing"]


def as_json(image: np.ndarray) -> bytes:
    """Return the body that carries *image* as numbers."""
    return json.dumps({"image": image.tolist()}).encode()


def as_png(image: np.ndarray) -> bytes:
    """Return *image* as a picture: dark ink on bright paper, 15 times as large."""
    grey = Image.fromarray((255 - image * (255 / 16)).astype(np.uint8))
    file = BytesIO()
    grey.resize((120, 120), Image.Resampling.BICUBIC).save(file, "PNG")
    return file.getvalue()


def predict_some(port: int) -> None:
    """Send a few held-out digits, the last one as a picture, and print the answers."""
    images, truth = train.held_out()
    first_of_each = np.unique(truth, return_index=True)[1][:SHOWN]
    images, truth = images[first_of_each], truth[first_of_each]
    bodies = [(as_json(image), JSON) for image in images]
    bodies[-1] = (as_png(images[-1]), "image/png")
    with contextlib.closing(HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
        answers = [predict(connection, *body) for body in bodies]
    print_images(images)
    predictions = [prediction for prediction, _ in answers]
    print_row("truth", truth)
    print_row("predicted", [prediction["digit"] for prediction in predictions])
    print_row("sure", [f"{max(prediction['probabilities']):.0%}" for prediction in predictions])
    print_row("sent as", ["PNG" if kind == "image/png" else "JSON" for _, kind in bodies])
    print(f"\n   time of the first, in ms: {answers[0][1]}")


def print_images(images: np.ndarray) -> None:
    """Draw the images side by side, two rows of pixels in one of text."""
    if "utf" not in (sys.stdout.encoding or "").lower():
        return
    blocks = np.array([[" ", "▄"], ["▀", "█"]])
    ink = (images > 6).astype(int)
    for top in range(0, 8, 2):
        line = blocks[ink[:, top], ink[:, top + 1]]
        print_row("", ["".join(part) for part in line])


def print_row(name: str, cells: object) -> None:
    """Print one line of the table."""
    print(f"   {name:<10}" + "".join(f"{cell!s:<9}" for cell in cells).rstrip())


def predict_burst(port: int) -> None:
    """Send all held-out digits over many connections at once."""
    images, truth = train.held_out()
    shares = [range(first, len(images), BURST) for first in range(BURST)]
    started = time.monotonic()
    with ThreadPoolExecutor(BURST) as pool:
        parts = list(pool.map(lambda share: predict_share(port, images[share]), shares))
    took_s = time.monotonic() - started
    right = sum(
        digit == truth[index]
        for share, part in zip(shares, parts, strict=True)
        for index, (digit, _) in zip(share, part, strict=True)
    )
    largest = max(size for part in parts for _, size in part)
    print(f"   right: {right} of {len(images)} ({right / len(images):.1%})")
    print(f"   took {took_s:.2f} s; the largest batch held {largest} requests")
    if right < len(images) * EXPECTED:
        raise DemoError(f"fewer than {EXPECTED:.0%} are right")


def predict_share(port: int, images: np.ndarray) -> list[tuple[int, int]]:
    """Send *images* one after another; return each digit and the size of its batch."""
    with contextlib.closing(HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
        answers = [predict(connection, as_json(image), JSON) for image in images]
    return [(prediction["digit"], batch_size(timing)) for prediction, timing in answers]


def batch_size(timing: str) -> int:
    """Read ``batch;dur=0.1;desc=17`` out of a ``Server-Timing``."""
    batch = next(part for part in timing.split(",") if part.strip().startswith("batch"))
    return int(batch.rpartition("desc=")[2].strip('"'))
