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
    """Print the requests per second of each, the CPU time of the front-end, and the ratios.

    The CPU time says more on a machine that does other things as well.
    """
    closed, opened = [], []
    for _ in range(rounds):
        rate, cost_s = measure(without, seconds)
        closed.append(ratios(measure(served, seconds), (rate, cost_s)))
        with open_page(served):
            opened.append(ratios(measure(served, seconds), (rate, cost_s)))
        print(f"{rate:8.0f}/s, {cost_s * 1e6:.1f} us of CPU without; {closed[-1]}, {opened[-1]}")
    for what, found in (("no page is open", closed), ("a page is open", opened)):
        rate, cost_s = map(statistics.median, zip(*found, strict=True))
        print(f"median ratios while {what}: requests/s {rate:.3f}, CPU of a request {cost_s:.3f}")


def ratios(measured: tuple[float, float], plain: tuple[float, float]) -> tuple[float, float]:
    """Return how requests per second and CPU time compare with those of the *plain* server."""
    return round(measured[0] / plain[0], 3), round(measured[1] / plain[1], 3)


def measure(served: ServedModel, seconds: float) -> tuple[float, float]:
    """Return requests per second, and seconds of CPU of the front-end for a request."""
    address = urlsplit(served.url)
    request = TimedRequest("/echo-000/predict", b"[1, 2, 3]", JSON)
    target = Target(str(address.hostname), int(address.port or 0), (request,))
    before = cpu_s(served)
    found = generate(target, ClosedLoop(CONNECTIONS), duration_s=seconds, warmup_s=0.0)
    return found.requests_per_s, (cpu_s(served) - before) / (found.requests_per_s * seconds)


def cpu_s(served: ServedModel) -> float:
    """Return the CPU time of the front-ends of a server, in seconds."""
    total, waiting = 0, [served.process.pid]
    while waiting:
        process = Path(f"/proc/{waiting.pop()}")
        waiting += map(int, (process / "task" / process.name / "children").read_text().split())
        if b"servekit.frontend" in (process / "cmdline").read_bytes():
            fields = (process / "stat").read_text().rpartition(")")[2].split()
            total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


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
