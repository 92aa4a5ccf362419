# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.benchmarks.mlflow DIRECTORY BODY``: servekit beside ``mlflow models serve``.

Both serve the MLflow model in DIRECTORY with one process, and get the JSON in the file BODY again
and again, in turns. ``MLFLOW_PYTHON`` names the Python that has MLflow and its server, if it
is not the running one. Prints requests per second: each run, the medians, and their ratio.
"""

import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Final

from servekit import serve
from tests.benchmarks.processes import free_port
from tests.benchmarks.wrk import Target, run

CONNECTIONS: Final = (8, 32)
ROUNDS: Final = 7
SECONDS: Final = 3
START_S: Final = 180
HEADERS: Final = (("Content-Type", "application/json"),)


def main() -> int:
    """Measure, and return the exit status."""
    directory, body = Path(sys.argv[1]), Path(sys.argv[2])
    rates: dict[tuple[str, int], list[float]] = {}
    with mlflow_server(directory) as anchor, serve(str(directory), block=False, port=0) as ours:
        for turn in range(ROUNDS):
            for connections in CONNECTIONS:
                for name, url in (("mlflow", anchor), ("servekit", ours.url)):
                    target = Target(url=f"{url}/invocations", body=body, headers=HEADERS)
                    load = run(target, connections=connections, seconds=SECONDS)
                    assert not load.errors, f"{name}: {load}"
                    rates.setdefault((name, connections), []).append(load.requests_per_s)
                    print(f"{turn} {connections:3} {name:8} {load.requests_per_s:9.1f}", flush=True)
    for connections in CONNECTIONS:
        theirs, own = (median(rates[name, connections]) for name in ("mlflow", "servekit"))
        print(f"c={connections}: MLflow {theirs:.0f}, servekit {own:.0f}, {own / theirs:.1f} times")
    return 0


@contextmanager
def mlflow_server(directory: Path) -> Iterator[str]:
    """Serve *directory* with MLflow while the block lasts; yield the address."""
    python, port = os.environ.get("MLFLOW_PYTHON", sys.executable), free_port()
    command = [python, "-m", "mlflow", "models", "serve", "-m", str(directory), "-p", str(port),
               "--env-manager", "local"]  # fmt: skip
    beside = f"{Path(python).parent}:{os.environ['PATH']}"  # it looks for uvicorn
    environment = {**os.environ, "PATH": beside, "MLFLOW_DISABLE_TELEMETRY": "true"}
    quiet = subprocess.DEVNULL
    with subprocess.Popen(
        command, stdout=quiet, stderr=quiet, env=environment, start_new_session=True
    ) as process:
        try:
            url = f"http://127.0.0.1:{port}"
            wait_for(f"{url}/ping", process)
            yield url
        finally:
            if process.poll() is None:
                os.killpg(process.pid, 15)


def wait_for(url: str, process: "subprocess.Popen[bytes]") -> None:
    """Wait until *url* answers."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            urllib.request.urlopen(url, timeout=5).close()
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.2)
        else:
            return
    raise AssertionError(f"nothing answers at {url}")


if __name__ == "__main__":
    sys.exit(main())
