# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.benchmarks.torchserve_archive ARCHIVE BODY``: one archive in two servers.

TorchServe and servekit serve the same ``.mar`` with one worker, and get the content of the file
BODY again and again, in turns; a name that ends in ``.json`` is JSON. ``TORCHSERVE_BIN`` names the
folder of the programs of an environment with TorchServe. Prints requests per second: each run, the
medians, and their ratio.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Final

from servekit import serve
from tests.benchmarks.mlflow import wait_for
from tests.benchmarks.processes import free_port
from tests.benchmarks.servers import PEERS
from tests.benchmarks.wrk import Target, run

CONNECTIONS: Final = (1, 8, 32)
ROUNDS: Final = 5
SECONDS: Final = 3
WARM_S: Final = 8  #: Java compiles what has run often
PORTS: Final = ("management_address", "metrics_address")


def main() -> int:
    """Measure, and return the exit status."""
    archive, body = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    is_json = body.suffix == ".json"
    headers = (("Content-Type", "application/json" if is_json else "application/octet-stream"),)
    rates: dict[tuple[str, int], list[float]] = {}
    with torchserve(archive) as anchor, serve(str(archive), block=False, port=0) as ours:
        urls = {"TorchServe": anchor, "servekit": ours.url}
        targets = {
            name: Target(url=f"{url}/predictions/{archive.stem}", body=body, headers=headers)
            for name, url in urls.items()
        }
        for target in targets.values():
            run(target, connections=CONNECTIONS[-1], seconds=WARM_S)
        for turn in range(ROUNDS):
            for connections in CONNECTIONS:
                for name, target in targets.items():
                    load = run(target, connections=connections, seconds=SECONDS)
                    assert not load.errors, f"{name}: {load}"
                    rates.setdefault((name, connections), []).append(load.requests_per_s)
                    print(
                        f"{turn} {connections:3} {name:10} {load.requests_per_s:9.1f}", flush=True
                    )
    for connections in CONNECTIONS:
        theirs, own = (median(rates[name, connections]) for name in urls)
        ratio = f"{own / theirs:.1f} times"
        print(f"c={connections}: TorchServe {theirs:.0f}, servekit {own:.0f}, {ratio}")
    return 0


@contextmanager
def torchserve(archive: Path) -> Iterator[str]:
    """Serve *archive* with TorchServe while the block lasts; yield the address."""
    programs, port = Path(os.environ["TORCHSERVE_BIN"]), free_port()
    url = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory() as directory:
        settings = Path(directory) / "config.properties"
        lines = [f"inference_address={url}", "disable_token_authorization=true"]
        lines += [f"{key}=http://127.0.0.1:{free_port()}" for key in PORTS]
        lines += [f"grpc_{kind}_port={free_port()}" for kind in ("inference", "management")]
        lines += [
            "default_workers_per_model=1",
            "disable_system_metrics=true",
            "job_queue_size=1024",
        ]
        settings.write_text("\n".join(lines), encoding="utf-8")
        command = [str(programs / "python"), str(programs / "torchserve"), "--start"]
        command += ["--foreground", "--no-config-snapshots", f"--ts-config={settings}"]
        command += [f"--log-config={PEERS / 'torchserve-log4j2.xml'}"]
        command += [f"--model-store={archive.parent}", "--models", archive.name]
        variables = {"PATH": f"{programs}:{os.environ['PATH']}", "TMPDIR": directory}
        environment = {**os.environ, **variables, "LOG_LOCATION": directory}
        quiet = subprocess.DEVNULL
        # not a session of its own: Linux may give each session the same share of the processors
        with subprocess.Popen(
            command, stdout=quiet, stderr=quiet, env=environment, process_group=0
        ) as process:
            try:
                wait_for(f"{url}/ping", process)
                yield url
            finally:
                os.killpg(process.pid, 9)


if __name__ == "__main__":
    sys.exit(main())
