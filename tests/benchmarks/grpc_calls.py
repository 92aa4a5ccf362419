# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.benchmarks.grpc_calls``: calls of gRPC per second, beside Triton, alternating.

The load comes from ``h2load``, which sends the same prepared message on every stream and takes a
few microseconds for a call: a client of gRPC would take more than the servers do.
"""

import argparse
import re
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from os import getloadavg
from statistics import median
from typing import Final, NamedTuple

from tests.benchmarks.answers import HOST
from tests.benchmarks.cases import SMALL, SUM
from tests.benchmarks.environments import debian_program
from tests.benchmarks.errors import BenchmarkError
from tests.benchmarks.oip import SignedServekit
from tests.benchmarks.processes import free_port
from tests.benchmarks.running import Running, started
from tests.benchmarks.triton import Triton

CALL: Final = "/inference.GRPCInferenceService/ModelInfer"
RATE: Final = re.compile(r"finished in [^,]+, ([\d.]+) req/s")
COUNTS: Final = re.compile(r"requests: (\d+) total.* (\d+) failed, (\d+) errored")
WARM_UP_S: Final = 1
SLACK_S: Final = 30.0


class GrpcServekit(SignedServekit):
    """servekit with gRPC."""

    key = "servekit"

    def options(self) -> list[str]:
        self.grpc_port = free_port()
        return ["--plugin", f"oip.grpc={HOST}:{self.grpc_port}"]


class GrpcTriton(Triton):
    """Triton with gRPC."""

    def options(self) -> tuple[str, ...]:
        self.grpc_port = free_port()
        others = [each for each in super().options() if each != "--allow-grpc=false"]
        return (*others, f"--grpc-address={HOST}", f"--grpc-port={self.grpc_port}")


class Measured(NamedTuple):
    """What one server did in one round."""

    calls_per_s: float
    cpu_us: float  #: of all processes of the server, for a call


def main(argv: Sequence[str] | None = None) -> int:
    """Compare, and print a table; return 1 if servekit makes fewer calls than a Triton."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.grpc_calls")
    parser.add_argument("--rounds", type=int, default=5, help="default: %(default)s")
    parser.add_argument("--seconds", type=int, default=4, help="default: %(default)s")
    parser.add_argument("--calls", type=int, nargs="+", default=[8, 32], help="at a time")
    parser.add_argument("--connections", type=int, default=1, help="for all calls; default: 1")
    options = parser.parse_args(argv)
    servers: list[GrpcServekit | GrpcTriton] = [GrpcServekit(), GrpcTriton(1), GrpcTriton(32)]
    try:
        program = debian_program("h2load", "nghttp2-client")
        for server in servers:
            server.install()
        ratios = list(_compare(options, program, servers))
    except BenchmarkError as error:
        print(f"grpc_calls: {error}", file=sys.stderr)
        return 1
    return 0 if min(ratios) >= 1 else 1


def _compare(
    options: argparse.Namespace, program: str, servers: Sequence[GrpcServekit | GrpcTriton]
) -> Iterator[float]:
    """Print a row for each server and number of calls; yield the median ratios to Triton."""
    print("| calls at a time | server | calls/s | CPU per call | servekit / it | load |")
    print("|--:|---|--:|--:|--:|--:|")
    with ExitStack() as stack:
        running = [stack.enter_context(started(server, [SUM])) for server in servers]
        for server in servers:
            check_answer(server.grpc_port)
        for calls in options.calls:
            seen: dict[str, list[Measured]] = {server.key: [] for server in servers}
            for number in range(options.rounds):
                for place in range(len(servers)):
                    at = (place + number) % len(servers)
                    found = measure(program, servers[at].grpc_port, running[at], calls, options)
                    seen[servers[at].key].append(found)
            yield from _print(calls, seen)


def _print(calls: int, seen: dict[str, list[Measured]]) -> Iterator[float]:
    own = seen["servekit"]
    for key, rounds in seen.items():
        rate, cpu_us = (median(column) for column in zip(*rounds, strict=True))
        pairs = zip(own, rounds, strict=True)
        ratio = median(mine.calls_per_s / its.calls_per_s for mine, its in pairs)
        cells = calls, key, f"{rate:,.0f}", f"{cpu_us:.0f} us", f"{ratio:.2f}"
        print("| " + " | ".join(map(str, cells)) + f" | {getloadavg()[0]:.1f} |", flush=True)
        if rounds is not own:
            yield ratio


def measure(
    program: str, port: int, running: Running, calls: int, options: argparse.Namespace
) -> Measured:
    """Load the server at *port* for some seconds.

    :raises BenchmarkError: a call failed.
    """
    body = running.directory / "grpc.body"
    body.write_bytes(message())
    argv = [program, "-t1", "-c", str(options.connections), "-m", str(calls // options.connections)]
    argv += ["-D", str(options.seconds), f"--warm-up-time={WARM_UP_S}", "-d", str(body)]
    argv += ["-H", "content-type: application/grpc", "-H", "te: trailers"]
    argv.append(f"http://{HOST}:{port}{CALL}")
    before_s, began = running.process.cpu_s(), time.monotonic()
    limit_s = options.seconds + SLACK_S
    done = subprocess.run(argv, capture_output=True, text=True, timeout=limit_s, check=False)
    used_s, lasted_s = running.process.cpu_s() - before_s, time.monotonic() - began
    rate, counts = RATE.search(done.stdout), COUNTS.search(done.stdout)
    if rate is None or counts is None or counts[2] != "0" or counts[3] != "0":
        raise BenchmarkError(f"h2load: {(done.stdout + done.stderr)[-800:]}")
    calls_per_s = float(rate[1])
    return Measured(calls_per_s, 1e6 * used_s / (calls_per_s * lasted_s))


# ---------------------------------------------------------------- the message


def field(number: int, content: bytes) -> bytes:
    """Return a field of protobuf with a short *content*."""
    return bytes((number << 3 | 2, len(content))) + content


def message() -> bytes:
    """Return the ModelInferRequest for the sum of four numbers, as gRPC frames it."""
    tensor = field(1, b"x") + field(2, b"FP32") + field(3, bytes((1, len(SMALL))))
    request = field(1, b"sum") + field(5, tensor) + field(6, field(1, b"prediction"))
    request += field(7, struct.pack(f"<{len(SMALL)}f", *SMALL))
    return b"\0" + len(request).to_bytes(4, "big") + request


def check_answer(port: int) -> None:
    """Pass if the server at *port* answers right.

    :raises BenchmarkError: it does not.
    """
    import grpc

    with grpc.insecure_channel(f"{HOST}:{port}") as channel:
        answer = channel.unary_unary(CALL)(message()[5:], timeout=SLACK_S)
    if not answer.endswith(struct.pack("<d", sum(SMALL))):
        raise BenchmarkError(f"a wrong answer: {answer!r}")


if __name__ == "__main__":
    sys.exit(main())
