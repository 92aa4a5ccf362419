# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.benchmarks.generators``: compares load generators, alternating."""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Final

from servekit_bench.report.verdict import LEAST_ROUNDS, interval

from tests.benchmarks.answers import check
from tests.benchmarks.cases import SUM
from tests.benchmarks.errors import BenchmarkError
from tests.benchmarks.generators.generators import GENERATORS, Generator, ServekitBench, Sight
from tests.benchmarks.generators.subjects import Subject, subjects
from tests.benchmarks.machine import read_machine
from tests.benchmarks.running import Running, started

Seen = Mapping[str, list[Sight]]

TOLERANCE: Final = 0.05


def main(argv: Sequence[str] | None = None) -> int:
    """Compare, print a table, and return 1 if a rate differs by more than 5 %."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.generators")
    parser.add_argument("--rounds", type=int, default=5, help="default: %(default)s")
    parser.add_argument("--seconds", type=int, default=4, help="default: %(default)s")
    parser.add_argument("--connections", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--servers", nargs="+", help="nginx, servekit, oip; default: all")
    parser.add_argument("--generators", nargs="+", help="wrk, perf_analyzer; default: both")
    options = parser.parse_args(argv)
    chosen = [
        each
        for each in GENERATORS
        if not options.generators or each.key in [ServekitBench.key, *options.generators]
    ]
    try:
        for generator in chosen:
            generator.install()
        found = list(_run(options, chosen))
    except BenchmarkError as error:
        print(f"generators: {error}", file=sys.stderr)
        return 1
    print(f"{read_machine().line()}\n")
    print("| server | connections | generator | requests/s | p50 | p99 | its CPU | bench / it |")
    print("|---|--:|---|--:|--:|--:|--:|--:|")
    ratios = [ratio for each in found for ratio in _print(*each)]
    return 0 if all(abs(each - 1) <= TOLERANCE for each in ratios) else 1


def _run(
    options: argparse.Namespace, chosen: Sequence[Generator]
) -> Iterator[tuple[Subject, int, Seen]]:
    for subject in subjects():
        if options.servers and subject.server.key not in options.servers:
            continue
        subject.server.install()
        able = [each for each in chosen if each.can_send(subject.request)]
        with started(subject.server, [SUM]) as running:
            check(running.port, subject.request)
            for connections in options.connections:
                yield subject, connections, _alternate(options, running, subject, connections, able)


def _alternate(
    options: argparse.Namespace,
    running: Running,
    subject: Subject,
    connections: int,
    able: Sequence[Generator],
) -> Seen:
    """Let each generator measure once in each round, in another order."""
    seen: dict[str, list[Sight]] = {each.key: [] for each in able}
    for number in range(options.rounds):
        for place in range(len(able)):
            each = able[(place + number) % len(able)]
            where = f"{subject.server.key}, {connections} connections, round {number + 1}"
            print(f"{where}: {each.key}", file=sys.stderr)
            seen[each.key].append(
                each.measure(
                    running.port, subject.request, connections, options.seconds, running.directory
                )
            )
    return seen


def _print(subject: Subject, connections: int, seen: Seen) -> list[float]:
    """Print a row for each generator; return the median ratios of requests/s."""
    ratios = []
    for key, sights in seen.items():
        rate, p50, p99, cpu = (
            median(getattr(each, name) for each in sights)
            for name in ("requests_per_s", "p50_ms", "p99_ms", "cpu_us")
        )
        text = ""
        if key != ServekitBench.key:
            own = seen[ServekitBench.key]
            pairs = zip(own, sights, strict=True)
            rounds = [a.requests_per_s / b.requests_per_s for a, b in pairs]
            ratios.append(median(rounds))
            text = f"{median(rounds):.3f}"
            if len(rounds) >= LEAST_ROUNDS:
                low, high = interval(rounds)
                text += f" ({1 + low:.3f} to {1 + high:.3f})"
        cells = [subject.server.key, connections, key, f"{rate:,.0f}", f"{p50:.3f} ms"]
        print("| " + " | ".join(map(str, [*cells, f"{p99:.3f} ms", f"{cpu:.1f} us", text])) + " |")
    return ratios


if __name__ == "__main__":
    sys.exit(main())
