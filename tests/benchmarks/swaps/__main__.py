# SPDX-License-Identifier: Apache-2.0
"""Updates a model twenty times under load, and counts the responses that are not 200.

python -m tests.benchmarks.swaps servekit
python -m tests.benchmarks.swaps ray --python RAY_ENVIRONMENT/bin/python
"""

import argparse
import http.client
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from servekit.testing import ServedModel

CLIENTS, INTERVAL_S = 10, 0.1  #: 100 requests per second
UPDATES, TIMEOUT_S = 20, 60.0
SERVICE = """
from servekit import Service

class S(Service):
    def load(self, context):
        self.version = context.version
        if "broken" in self.version:
            raise RuntimeError("no weights")

    def predict(self, batch):
        return [[self.version, item] for item in batch]
"""

Update = Callable[[str], str]  #: from a version to the error; "" if it serves


class Client(threading.Thread):
    """Asks at fixed moments, and counts what comes."""

    def __init__(self, port: int, ends: threading.Event) -> None:
        super().__init__(daemon=True)
        self.port, self.ends, self.seen = port, ends, Counter[str]()
        self.durations_s: list[float] = []

    def run(self) -> None:
        """Ask until the end."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT_S)
        at = time.monotonic()
        while not self.ends.wait(max(0.0, at - time.monotonic())):
            began, at = time.monotonic(), at + INTERVAL_S
            try:
                headers = {"Content-Type": "application/json"}
                connection.request("POST", "/digits/predict", b"1", headers)
                answer = connection.getresponse()
                answer.read()
                self.seen[str(answer.status)] += 1
            except (OSError, http.client.HTTPException) as error:
                self.seen[type(error).__name__] += 1
                connection.close()
            self.durations_s.append(time.monotonic() - began)


def measure(port: int, update: Update) -> dict[str, object]:
    """Update the model under load, and return what the clients saw."""
    ends = threading.Event()
    clients = [Client(port, ends) for _ in range(CLIENTS)]
    for client in clients:
        client.start()
    durations, refused = [], 0
    for number in range(2, UPDATES + 2):
        began = time.monotonic()
        refused += bool(update(f"{number}-broken" if number % 3 == 1 else f"{number}"))
        durations.append(time.monotonic() - began)
    ends.set()
    for client in clients:
        client.join(TIMEOUT_S)
    seen = sum((client.seen for client in clients), Counter[str]())
    waits = [duration_s for client in clients for duration_s in client.durations_s]
    return {
        "responses": dict(seen),
        "not_200": sum(seen.values()) - seen["200"],
        "slower_than_1_s": sum(duration_s > 1 for duration_s in waits),
        "longest_s": round(max(waits), 2),
        "refused_updates": refused,
        "median_update_s": round(sorted(durations)[UPDATES // 2], 2),
        "longest_update_s": round(max(durations), 2),
    }


def servekit_figures(place: Path) -> dict[str, object]:
    """Swap directories through the command line."""
    served = ServedModel(version_in(place, "1"), run_dir=place).wait_ready()

    def update(version: str) -> str:
        source = str(version_in(place, version))
        options = ["--shift", "50", "--step", "0.3", "--watch", "0.3", "--keep", "0"]
        command = [sys.executable, "-m", "servekit", "swap", "digits", source, *options]
        done = subprocess.run(
            [*command, "--run-dir", str(place)], capture_output=True, text=True, check=False
        )
        return done.stderr if done.returncode else ""

    try:
        return measure(int(served.url.rpartition(":")[2]), update)
    finally:
        served.stop()


def version_in(place: Path, version: str) -> Path:
    """Make a model directory."""
    directory = place / f"v{version}"
    directory.mkdir()
    (directory / "service.py").write_text(SERVICE)
    toml = f'name = "digits"\nversion = "{version}"\nservice = "service:S"\n'
    (directory / "model.toml").write_text(toml)
    return directory


def ray_figures(python: str, port: int) -> dict[str, object]:
    """Update a deployment of Ray Serve in place."""
    script = Path(__file__).with_name("ray_updates.py")
    with subprocess.Popen(
        [python, str(script), str(port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        given, answers = process.stdin, process.stdout

        def update(version: str) -> str:
            print(version, file=given, flush=True)
            return str(json.loads(answers.readline())["error"])

        update("1")
        found = measure(port, update)
        given.close()
    return found


def main() -> None:
    """Print the figures of one server as JSON."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.swaps")
    parser.add_argument("server", choices=("servekit", "ray"))
    parser.add_argument("--python", default="", help="interpreter of Ray's environment")
    parser.add_argument("--port", type=int, default=18_099, help="for Ray")
    parsed = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sk", ignore_cleanup_errors=True) as place:
        if parsed.server == "servekit":
            figures = servekit_figures(Path(place))
        else:
            figures = ray_figures(parsed.python, parsed.port)
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
