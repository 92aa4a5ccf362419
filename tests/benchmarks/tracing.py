# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.benchmarks.tracing``: what traces cost the requests of a server.

Servers without ``servekit-otel``, with it and no endpoint, and with it at several shares run at the
same time; each in turn gets a closed loop, in an order that changes with every round. The CPU time
of the processes that serve, and of the observer, are counted apart: where cores are free, the
observer takes nothing away from requests.
"""

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from servekit_bench.load import ClosedLoop, Target, TimedRequest, generate

from servekit.testing import ServedModel
from tests.benchmarks.cases import MLP, PHOTO, SUM, Case
from tests.benchmarks.encoding import CONTENT_TYPES

MODELS: Final = Path(__file__).parent / "models"
CASES: Final = {case.model: case for case in (SUM, MLP, PHOTO)}
TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
#: hides other plugins, so that nothing else asks for events
HIDING: Final = """
import importlib.metadata as metadata, os
select, kept = metadata.EntryPoints.select, os.environ["BENCH_PLUGINS"].split(",")
def select_kept(points, **wanted):
    return metadata.EntryPoints(
        each for each in select(points, **wanted) if each.group != "servekit" or each.name in kept
    )
metadata.EntryPoints.select = select_kept
"""


class Variant(NamedTuple):
    """One server."""

    name: str
    plugins: str
    has_endpoint: bool
    share: float | None = (
        None  #: all of it; ``None``: the defaults, which limit the traces a second
    )


VARIANTS: Final = (
    Variant("without", "", has_endpoint=False),
    Variant("no endpoint", "otel", has_endpoint=False),
    Variant("defaults", "otel", has_endpoint=True),
    Variant("1 %", "otel", has_endpoint=True, share=0.01),
    Variant("10 %", "otel", has_endpoint=True, share=0.1),
    Variant("100 %", "otel", has_endpoint=True, share=1.0),
)


class Sample(NamedTuple):
    """One measurement."""

    requests_per_s: float
    serving_us: float  #: CPU time of front-ends and workers, for each request
    observer_us: float


def main() -> int:
    """Measure, and print a table of medians."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.tracing", description=__doc__)
    parser.add_argument("--rounds", type=int, default=10, help="default: %(default)s")
    parser.add_argument("--seconds", type=float, default=2.0, help="default: %(default)s")
    parser.add_argument("--connections", type=int, default=16, help="default: %(default)s")
    parser.add_argument("--model", choices=CASES, default="mlp", help="default: %(default)s")
    options = parser.parse_args()
    case = CASES[options.model]
    found: dict[str, list[Sample]] = defaultdict(list)
    with contextlib.ExitStack() as stack:
        endpoint = stack.enter_context(collector())
        hiding = stack.enter_context(tempfile.TemporaryDirectory())
        Path(hiding, "sitecustomize.py").write_text(HIDING)
        servers = {
            each.name: stack.enter_context(start(case, each, endpoint, hiding)) for each in VARIANTS
        }
        for number in range(options.rounds):
            names = list(servers)
            for name in names[number % len(names) :] + names[: number % len(names)]:
                sys.stderr.write(f"\rround {number + 1} of {options.rounds}: {name:12}")
                found[name].append(
                    measure(servers[name], case, options.seconds, options.connections)
                )
    sys.stderr.write("\r")
    show(found)
    return 0


@contextlib.contextmanager
def start(case: Case, variant: Variant, endpoint: str, hiding: str) -> Iterator[ServedModel]:
    """Serve the model until the end of the block."""
    path = os.pathsep.join(filter(None, [hiding, os.environ.get("PYTHONPATH", "")]))
    environment = os.environ | {"BENCH_PLUGINS": variant.plugins, "PYTHONPATH": path}
    if variant.has_endpoint:
        environment["OTEL_EXPORTER_OTLP_ENDPOINT"] = endpoint
        if variant.share is not None:
            environment["SERVEKIT_PLUGIN_OTEL_SAMPLING"] = str(variant.share)
            environment["SERVEKIT_PLUGIN_OTEL_MAX_PER_SECOND"] = "0"
    with ServedModel(MODELS / case.model, environment=environment, http2=False) as server:
        yield server.wait_ready()


def measure(server: ServedModel, case: Case, seconds: float, connections: int) -> Sample:
    """Return what *server* does in a closed loop."""
    host, _, port = server.url.partition("://")[2].partition(":")
    headers = (("Content-Type", CONTENT_TYPES[case.form]),)
    request = TimedRequest(f"/{server.name}/predict", case.body(case.values()), headers)
    before = cpu_ticks(server.process.pid)
    measured = generate(
        Target(host, int(port), (request,)),
        ClosedLoop(connections),
        duration_s=seconds,
        warmup_s=0.3,
    )
    after = cpu_ticks(server.process.pid)
    if measured.failures or set(measured.statuses) != {200}:
        raise SystemExit(f"failed requests: {measured.statuses}")
    requests = measured.requests_per_s * (seconds + 0.3)
    spent = {name: (after[name] - before[name]) / TICKS_PER_S / requests * 1e6 for name in after}
    return Sample(measured.requests_per_s, spent["serving"], spent["observer"])


def cpu_ticks(root: int) -> dict[str, int]:
    """Return the CPU time of the children of the supervisor *root*, and of their children."""
    found = {"serving": 0, "observer": 0}
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            pid = int(path.parent.name)
            parents[pid], ticks[pid] = int(fields[1]), int(fields[11]) + int(fields[12])
    for pid in parents:
        line, above = [pid], pid
        while (above := parents.get(above, 0)) > 1:
            line.append(above)
        if root in line[1:]:
            with contextlib.suppress(OSError):
                command = Path(f"/proc/{pid}/cmdline").read_bytes()
                found["observer" if b"servekit.observer" in command else "serving"] += ticks[pid]
    return found


def show(found: dict[str, list[Sample]]) -> None:
    """Print medians, and their ratios to the server without the plugin."""
    print("| variant | requests/s | ratio | CPU us a request, serving | ratio | observer |")
    print("|---|---|---|---|---|---|")
    base = found["without"]
    for name, samples in found.items():
        rates = [mine[0] / theirs[0] for mine, theirs in zip(samples, base, strict=True)]
        costs = [mine[1] / theirs[1] for mine, theirs in zip(samples, base, strict=True)]
        medians = [statistics.median(column) for column in zip(*samples, strict=True)]
        rate, cost = statistics.median(rates), statistics.median(costs)
        print(
            f"| {name} | {medians[0]:,.0f} | {rate:.3f} | {medians[1]:.1f} | {cost:.3f} "
            f"| {medians[2]:.1f} |"
        )


#: answers each request with 200, and reads no more of it than where it ends
COLLECTOR: Final = """
import os, re, socket, threading
def serve(peer):
    buffer = memoryview(bytearray(1 << 20))
    with peer:
        while head := peer.recv(1 << 16):
            while b"\\r\\n\\r\\n" not in head:
                head += peer.recv(1 << 16)
            start, _, rest = head.partition(b"\\r\\n\\r\\n")
            left = int(re.search(rb"content-length: *([0-9]+)", start, re.I)[1]) - len(rest)
            while left > 0:
                left -= peer.recv_into(buffer)
            peer.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: 0\\r\\n\\r\\n")
os.nice(10)
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"""


@contextlib.contextmanager
def collector() -> Iterator[str]:
    """Take traces and forget them, in a process that takes little time, until the end."""
    command = [sys.executable, "-c", COLLECTOR]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.kill()


if __name__ == "__main__":
    sys.exit(main())
