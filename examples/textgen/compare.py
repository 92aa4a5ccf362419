# SPDX-License-Identifier: Apache-2.0
"""Continuous against static batching: the same texts, the same network, the same clients."""

import argparse
import json
import random
import shutil
import sys
import tempfile
import threading
import time
from http.client import HTTPConnection
from pathlib import Path
from statistics import mean, median

sys.path.insert(0, str(Path(__file__).parents[1]))
from local_server import serving

HERE = Path(__file__).parent
CLIENTS = 16
SHORT, LONG = 100, 2000  # letters; one text in eight is long


def requests(client: int) -> random.Random:
    """Return what chooses the lengths of one client, the same for both kinds of batching."""
    return random.Random(client)


def ask(client: HTTPConnection, length: int) -> int:
    """Have a text of *length* letters written and return how many came."""
    body = json.dumps({"text": "Alice ", "letters": length})
    client.request("POST", "/textgen/predict", body, {"Content-Type": "application/json"})
    return len(json.loads(client.getresponse().read())["prediction"])


def measure(port: int, seconds: float) -> tuple[float, list[float]]:
    """Keep ``CLIENTS`` busy; return letters a second, and how long the short texts took."""
    until = time.monotonic() + seconds
    letters, waits = [0] * CLIENTS, []

    def work(client: int) -> None:
        lengths = requests(client)
        connection = HTTPConnection("127.0.0.1", port, timeout=60)
        while (started := time.monotonic()) < until:
            length = LONG if lengths.random() < 1 / 8 else SHORT
            letters[client] += ask(connection, length)
            if length == SHORT:
                waits.append(time.monotonic() - started)
        connection.close()

    started = time.monotonic()
    threads = [threading.Thread(target=work, args=(client,)) for client in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(letters) / (time.monotonic() - started), waits


def static_copy(directory: Path) -> Path:
    """Return this model, answering in batches."""
    copy = Path(shutil.copytree(HERE, directory / "static"))
    text = (copy / "model.toml").read_text()
    (copy / "model.toml").write_text(text.replace("service:Textgen", "service:Static"))
    return copy


def draw(rates: dict[str, float], waits: dict[str, float], file: Path) -> None:
    """Draw the throughput of both, and how long a short text takes."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(7, 3))
    for axes, found, title in (
        (left, rates, "letters a second"),
        (right, waits, "ms for a short text (median)"),
    ):
        axes.bar(list(found), list(found.values()), color=["#999999", "#2a7de1"])
        axes.set_title(title, fontsize=10)
        axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(file)


def main() -> None:
    """Measure both, one after the other, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--plot", type=Path, help="draw it too (matplotlib)")
    arguments = parser.parse_args()
    found, medians = {}, {}
    with tempfile.TemporaryDirectory() as directory:
        for kind, model in (("static", static_copy(Path(directory))), ("continuous", HERE)):
            with serving(model) as (port, _):
                rate, waits = measure(port, arguments.seconds)
            found[kind], medians[kind] = rate, median(waits) * 1e3
            print(
                f"{kind:>10}: {rate:7.0f} letters/s; a short text takes "
                f"{medians[kind]:.0f} ms (median), {mean(waits) * 1e3:.0f} ms (mean)"
            )
    print(f"continuous batching writes {found['continuous'] / found['static']:.1f} times as much")
    if arguments.plot:
        draw(found, medians, arguments.plot)


if __name__ == "__main__":
    main()
