# SPDX-License-Identifier: Apache-2.0
"""What the console costs: requests per second without it, with it, and while a page is open.

    python -m tests.benchmarks.console                # six rounds of five seconds each
    python -m tests.benchmarks.console --models 100   # the page shows a hundred models

The servers take turns, so that a change of the machine's speed meets all of them. The ratios are
those within a round, and their median counts. At last it prints when a browser paints the overview.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from servekit_bench.load import ClosedLoop, Target, TimedRequest, generate

from servekit.testing import ServedModel
from tests.browser.driver import CHROMIUM, Browser

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SERVICE: Final = """
from servekit import Service


class Echo(Service):
    def predict(self, batch):
        return batch
"""
JSON: Final = (("Content-Type", "application/json"),)
CONNECTIONS: Final = 16
PAINT: Final = """(([page], paint) => [page.responseEnd, paint.startTime])(
    performance.getEntriesByType('navigation'),
    performance.getEntriesByName('first-contentful-paint')[0])"""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.console")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--models", type=int, default=1)
    parsed = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        models = [write_model(Path(scratch), number) for number in range(parsed.models)]
        # one replica for one model that is asked; the others sleep, and are shown all the same
        asleep = [f"{model.name}.replicas=0" for model in models[1:]]
        without, served = (
            stack.enter_context(ServedModel(*models, set=asleep, plugin=plugin))
            for plugin in (("console.enabled=false",), ("console.enabled=true",))
        )
        compare(without, served, parsed.rounds, parsed.seconds)
        if CHROMIUM is not None:
            paint(served, Path(scratch))


def write_model(scratch: Path, number: int) -> Path:
    """Return the directory of an echo."""
    directory = scratch / f"echo-{number:03}"
    directory.mkdir()
    text = f'name = "{directory.name}"\nservice = "service:Echo"\n'
    (directory / "model.toml").write_text(text)
    (directory / "service.py").write_text(SERVICE)
    return directory


def compare(without: ServedModel, served: ServedModel, rounds: int, seconds: float) -> None:
    """Print the requests per second of each, and the ratios."""
    closed, opened = [], []
    for _ in range(rounds):
        plain = measure(without, seconds)
        closed.append(measure(served, seconds) / plain)
        with open_page(served):
            opened.append(measure(served, seconds) / plain)
        print(f"{plain:8.0f}/s without; no page {closed[-1]:.3f}, a page {opened[-1]:.3f}")
    print(f"median ratio while no page is open: {statistics.median(closed):.3f}")
    print(f"median ratio while a page is open:  {statistics.median(opened):.3f}")


def measure(served: ServedModel, seconds: float) -> float:
    """Return requests per second."""
    address = urlsplit(served.url)
    request = TimedRequest("/echo-000/predict", b"[1, 2, 3]", JSON)
    target = Target(str(address.hostname), int(address.port or 0), (request,))
    return generate(target, ClosedLoop(CONNECTIONS), duration_s=seconds).requests_per_s


@contextmanager
def open_page(served: ServedModel) -> Iterator[None]:
    """Follow the server as an open page does."""
    import httpx

    with httpx.stream("GET", f"{served.url}/console/live", timeout=60) as response:
        pieces = response.iter_raw()
        next(pieces)
        yield


def paint(served: ServedModel, scratch: Path) -> None:
    """Print when the overview is painted."""
    browser = Browser(scratch / "profile")
    found: list[Sequence[float]] = []
    try:
        browser.look_like()
        for _ in range(8):
            browser.call("Page.navigate", url="about:blank")
            browser.open(f"{served.url}/console/")
            sleep(0.5)
            found.append(browser.run(PAINT))
    finally:
        browser.close()
    for name, times in zip(("response", "first paint"), zip(*found, strict=True), strict=True):
        print(f"{name}: median {statistics.median(times):.0f} ms, best {min(times):.0f} ms")


if __name__ == "__main__":
    os.environ.pop("SERVEKIT_PLUGIN_CONSOLE_ENABLED", None)
    main()
