# SPDX-License-Identifier: Apache-2.0
"""``make bench``: measure, print the report, exit with 0 only when every answer was right."""

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Final

from tests.benchmarks import report, rounds
from tests.benchmarks.environments import debian_program
from tests.benchmarks.errors import BenchmarkError
from tests.benchmarks.figures import Sample
from tests.benchmarks.machine import read_machine
from tests.benchmarks.optional import LitServe, TorchServe
from tests.benchmarks.servers import Mosec, Nginx, Servekit, Server

SERVERS: Final[tuple[Server, ...]] = (Servekit(), Mosec(1), Mosec(32), Nginx())
OPTIONAL: Final[tuple[Server, ...]] = (LitServe(1), LitServe(32), TorchServe(1), TorchServe(32))

FAILED: Final = 1  #: a wrong answer, an error under load, or a server that did not run
INTERRUPTED: Final = 130  #: Ctrl-C or SIGTERM; everything was ended


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark and return its exit status."""
    options = create_parser().parse_args(argv)
    for number in (signal.SIGINT, signal.SIGTERM):  # a shell's background job ignores SIGINT
        signal.signal(number, _interrupt)
    try:
        return _run(options)
    except BenchmarkError as error:
        print(f"\nbench: {error}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        print("\nbench: interrupted; every server was ended", file=sys.stderr)
        return INTERRUPTED


def create_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="make bench BENCH_ARGS=...", description="Measure servekit beside its peers."
    )
    parser.add_argument("--rounds", type=_count, default=3, help="default: %(default)s")
    parser.add_argument("--seconds", type=_count, default=4, help="of one measurement; default: 4")
    parser.add_argument("--connections", type=_counts, default=(1, 8, 32, 128), metavar="N,N,...")
    parser.add_argument("--servers", type=_names, default=(), metavar="NAME,NAME,...")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every sample to FILE")
    parser.add_argument("--litserve", action="store_true", help="measure LitServe too")
    parser.add_argument("--torchserve", action="store_true", help="measure TorchServe too")
    return parser


def select(options: argparse.Namespace) -> list[Server]:
    """Return the servers that the options ask for."""
    asked = options.servers or tuple(server.key for server in SERVERS)
    asked += tuple(name for name in ("litserve", "torchserve") if getattr(options, name))
    return [s for s in (*SERVERS, *OPTIONAL) if {s.key, s.key.partition("-")[0]} & set(asked)]


def _run(options: argparse.Namespace) -> int:
    plan = rounds.Plan(
        rounds=options.rounds, seconds=options.seconds, connections=options.connections
    )
    debian_program("wrk")
    machine = read_machine()
    versions = {}
    for server in select(options):
        _progress(f"preparing {server.title}")
        server.install()
        versions[server] = server.version()
    samples = rounds.run(list(versions), plan, _progress)
    _progress("")
    figures = (machine, plan, versions, samples)
    print(report.markdown(*figures), end="")
    if options.json:
        options.json.write_text(report.as_json(*figures), encoding="utf-8")
    return _status(samples)


def _status(samples: Sequence[Sample]) -> int:
    """Name every server that failed a request, on stderr, and return the exit status."""
    failed = sorted({sample.server for sample in samples if sample.errors})
    if failed:
        print(
            f"bench: failed requests (see the errors column): {', '.join(failed)}", file=sys.stderr
        )
    return FAILED if failed else 0


def _progress(text: str) -> None:
    """Show one line that is overwritten on a terminal, and kept elsewhere."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
    elif text:
        print(text, file=sys.stderr, flush=True)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """End the run by an exception, so that every server is ended on the way out."""
    raise KeyboardInterrupt


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is below 1")
    return number


def _counts(text: str) -> tuple[int, ...]:
    return tuple(sorted({_count(part) for part in text.split(",")}))


def _names(text: str) -> tuple[str, ...]:
    known = {key for s in (*SERVERS, *OPTIONAL) for key in (s.key, s.key.partition("-")[0])}
    names = tuple(text.split(","))
    unknown = sorted(set(names) - known)
    if unknown:
        raise argparse.ArgumentTypeError(
            f"{', '.join(unknown)} is none of {', '.join(sorted(known))}"
        )
    return names


if __name__ == "__main__":
    sys.exit(main())
