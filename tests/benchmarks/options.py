# SPDX-License-Identifier: Apache-2.0
"""What ``BENCH_ARGS`` may say."""

import argparse
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Final

from tests.benchmarks.cases import APART, ARRAYS, COPIES, MLP, PHOTO, PIPELINE, SUM, TENSORS, Case
from tests.benchmarks.oip import OipServekit, SignedServekit, StackingServekit
from tests.benchmarks.optional import Flask, LitServe, MLServer
from tests.benchmarks.running import Plan
from tests.benchmarks.servers import Mosec, Nginx, Servekit, Server
from tests.benchmarks.torchserve import TorchServe
from tests.benchmarks.triton import Triton

SERVERS: Final[tuple[Server, ...]] = (
    Servekit(),
    *(Mosec(1), Mosec(32)),
    *(LitServe(1), LitServe(32)),
    *(TorchServe(1), TorchServe(32)),
    *(MLServer(1), MLServer(32)),
    *(Triton(1), Triton(32)),
    *(OipServekit(), SignedServekit(), StackingServekit()),
    Flask(),
    Nginx(),
)
WORKLOADS: Final = (
    *("small", "pipeline", "tensors", "copies", "arrays", "mlp"),
    *("open-loop", "start-up", "memory"),
)
DEFAULT_SERVERS: Final = ("servekit", "mosec", "nginx")
DEFAULT_WORKLOADS: Final = ("small", "tensors")
ALL: Final = "all"
LIST: Final = "NAME,NAME,..."


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Return the options; exits with status 2 when they make no sense."""
    options = create_parser().parse_args(argv)
    options.servers = options.servers or (_server_names() if options.all else DEFAULT_SERVERS)
    options.workloads = options.workloads or (WORKLOADS if options.all else DEFAULT_WORKLOADS)
    default = TENSORS if options.all else (PHOTO,)
    options.tensors = _tensors(options.tensors) if options.tensors else default
    return options


def create_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="make bench BENCH_ARGS=...", description="Measure servekit beside its peers."
    )
    for name, known in {"workloads": WORKLOADS, "servers": _server_names()}.items():
        parser.add_argument(
            f"--{name}", type=_names(known), metavar=LIST, help=f"of {', '.join(known)}"
        )
    tensors = [_form_and_size(case) for case in TENSORS]
    parser.add_argument(
        "--tensors",
        type=_names([*tensors, ALL]),
        metavar=LIST,
        help=f"all, or of {', '.join(tensors)}; default: {_form_and_size(PHOTO)}",
    )
    parser.add_argument("--all", action="store_true", help="every workload with every server")
    parser.add_argument("--rounds", type=_count, default=3, help="default: %(default)s")
    parser.add_argument("--seconds", type=_count, default=4, help="of one measurement; default: 4")
    parser.add_argument("--connections", type=_counts, default=(), metavar="N,N,...")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every sample to FILE")
    parser.add_argument(
        "--publish", action="store_true", help="write JSON, table and charts to docs/benchmarks"
    )
    return parser


def plan(options: argparse.Namespace) -> Plan:
    return Plan(rounds=options.rounds, seconds=options.seconds, connections=options.connections)


def servers(options: argparse.Namespace) -> list[Server]:
    """Return the servers that are asked for, in the order of the report."""
    asked = set(options.servers)
    return [server for server in SERVERS if asked & set(_names_of(server))]


def cases(options: argparse.Namespace) -> list[Case]:
    """Return the cases of closed-loop load that are asked for."""
    by_workload = {
        "small": (SUM,),
        "pipeline": (SUM, PIPELINE, APART),  # one service beside them, for the ratio
        "tensors": options.tensors,
        "copies": (COPIES,),
        "arrays": ARRAYS,
        "mlp": (MLP,),
    }
    asked = [by_workload[name] for name in by_workload if name in options.workloads]
    return list(dict.fromkeys(case for cases in asked for case in cases))


def _names_of(server: Server) -> tuple[str, str]:
    """``mosec-32`` is also one of ``mosec``."""
    return server.key, server.key.partition("-")[0]


def _server_names() -> list[str]:
    return sorted({name for server in SERVERS for name in _names_of(server)})


def _tensors(names: Collection[str]) -> tuple[Case, ...]:
    return tuple(case for case in TENSORS if {_form_and_size(case), ALL} & set(names))


def _form_and_size(case: Case) -> str:
    return f"{case.form}-{case.size}"


def _names(known: Collection[str]) -> Callable[[str], tuple[str, ...]]:
    def names(text: str) -> tuple[str, ...]:
        asked = tuple(text.split(","))
        unknown = sorted(set(asked) - set(known))
        if unknown:
            raise argparse.ArgumentTypeError(f"{', '.join(unknown)} is none of {', '.join(known)}")
        return asked

    return names


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is below 1")
    return number


def _counts(text: str) -> tuple[int, ...]:
    return tuple(sorted({_count(part) for part in text.split(",")}))
