# SPDX-License-Identifier: Apache-2.0
"""The flags of ``servekit bench``."""

import argparse
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from servekit.errors import StartupError
from servekit.settings.arguments import (
    count,
    duration,
    duration_or_zero,
    output_file,
    positive,
)
from servekit_bench.load import ClosedLoop, Load, OpenLoop, Tls
from servekit_bench.targets import TargetOptions

__all__ = ["add_flags", "add_search", "load_of", "target_options"]

TOKEN_VARIABLE: Final = "SERVEKIT_PREDICT_TOKEN"  # noqa: S105 - a name, not a token
CONNECTIONS: Final = 8
OPEN_CONNECTIONS: Final = 128


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add all flags but those of ``servekit tune``."""
    _add_load(parser)
    _add_requests(parser)
    _add_connection(parser)
    _add_archives(parser)
    output = parser.add_argument_group("output")
    output.add_argument("--json", action="store_true", help="print a JSON object")
    output.add_argument(
        "--html", type=output_file, metavar="FILE", help="write a report with plots"
    )


def _add_load(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("load")
    group.add_argument(
        "-c",
        "--connections",
        type=count,
        metavar="N",
        help=f"closed loop: connections that are always busy (default {CONNECTIONS}); with --rate:"
        f" connections at most (default {OPEN_CONNECTIONS})",
    )
    group.add_argument(
        "-r", "--rate", type=positive, metavar="N", help="open loop: requests/s, at fixed moments"
    )
    group.add_argument(
        "--arrivals",
        choices=("poisson", "constant"),
        default="poisson",
        help="moments of an open loop: as of many independent clients, or evenly spaced",
    )
    group.add_argument(
        "-d",
        "--duration",
        type=duration,
        metavar="TIME",
        help="of a measurement; default 10s, 5s for two targets, 3s for each step of --saturation",
    )
    group.add_argument(
        "--warm-up", type=duration_or_zero, default=2.0, metavar="TIME", help="default 2s"
    )
    group.add_argument(
        "--rounds", type=count, metavar="N", help="measurements of each target (1; 5 for two)"
    )
    group.add_argument(
        "--timeout", type=duration, default=10.0, metavar="TIME", help="of a request; default 10s"
    )
    group.add_argument(
        "--deadline", type=duration, metavar="TIME", help="end of the run; prints what it has then"
    )
    group.add_argument(
        "--processes", type=count, default=0, metavar="N", help="of the load generator"
    )


def _add_requests(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("requests")
    group.add_argument(
        "-i",
        "--input",
        type=Path,
        nargs="+",
        action="extend",
        default=[],
        metavar="PATH",
        help="files to send in turn, directories of them, or JSON Lines (.jsonl); default: the"
        " examples of the model, or one that fits its schema",
    )
    group.add_argument("--content-type", default="", metavar="TYPE", help="of the files")
    group.add_argument("--path", default="", metavar="PATH", help="such as /digits/predict")
    group.add_argument("--model", default="", metavar="NAME", help="one of several models")
    group.add_argument(
        "-H", "--header", type=header, action="append", default=[], metavar="'NAME: VALUE'"
    )
    group.add_argument("--stream", action="store_true", help="ask for outputs one by one")
    group.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        help=f"bearer token, the first line of the file; or set {TOKEN_VARIABLE}",
    )


def _add_connection(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("TLS")
    group.add_argument("--ca", default="", metavar="FILE", help="authorities to trust (PEM)")
    group.add_argument("--certificate", default="", metavar="FILE", help="ours, with its chain")
    group.add_argument("--key", default="", metavar="FILE", help="of that certificate")
    group.add_argument(
        "--insecure", action="store_true", help="do not verify the server's certificate"
    )


def _add_archives(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("archives", "How servers are started for archives.")
    for prefix, words in (("", ""), ("other-", " (of OTHER alone)")):
        group.add_argument(
            f"--{prefix}set",
            nargs="+",
            action="extend",
            default=[],
            metavar="NAME.KEY=VALUE",
            help=f"settings of the model, as for servekit start{words}",
        )
        group.add_argument(
            f"--{prefix}serve",
            type=setting,
            nargs="+",
            action="extend",
            default=[],
            metavar="OPTION=VALUE",
            help=f"options of servekit start, such as replicas=2 front-ends=2{words}",
        )


def add_search(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the search for the saturation."""
    group = parser.add_argument_group("saturation")
    group.add_argument(
        "--saturation",
        action="store_true",
        help="raise the load until throughput stops rising, then find the highest rate that is"
        " kept: answered in time, at most 1 %% failed, within --p99",
    )
    group.add_argument("--p99", type=duration, metavar="TIME", help="such as 20ms")


def load_of(parsed: argparse.Namespace) -> Load:
    """Return the load that the flags ask for."""
    if parsed.rate is None:
        return ClosedLoop(parsed.connections or CONNECTIONS)
    return OpenLoop(parsed.rate, parsed.arrivals, parsed.connections or OPEN_CONNECTIONS)


def target_options(parsed: argparse.Namespace, *, is_other: bool = False) -> TargetOptions:
    """Return how to reach a target.

    :raises StartupError: the token cannot be read.
    """
    headers = list(parsed.header)
    token = _token(parsed.token_file)
    if token:
        headers.append(("Authorization", f"Bearer {token}"))
    if parsed.stream:
        headers.append(("Accept", "text/event-stream"))
    return TargetOptions(
        path=parsed.path,
        model=parsed.model,
        inputs=tuple(parsed.input),
        media_type=parsed.content_type,
        headers=tuple(headers),
        tls=Tls(parsed.ca, parsed.certificate, parsed.key, not parsed.insecure),
        settings=_settings(parsed, is_other=is_other),
        timeout_s=parsed.timeout,
    )


def _settings(parsed: argparse.Namespace, *, is_other: bool) -> Mapping[str, Any]:
    given = [*parsed.serve, *(parsed.other_serve if is_other else [])]
    assigned = [*parsed.set, *(parsed.other_set if is_other else [])]
    return dict(given) | ({"set": assigned} if assigned else {})


def _token(path: Path | None) -> str:
    if path is None:
        return os.environ.get(TOKEN_VARIABLE, "")
    try:
        return path.read_text(encoding="utf-8").split("\n", 1)[0].strip()
    except OSError as error:
        raise StartupError(f"--token-file: {path}: {error.strerror}") from error


# ---------------------------------------------------------------- values of flags


def header(text: str) -> tuple[str, str]:
    """Parse ``NAME: VALUE``."""
    name, colon, value = text.partition(":")
    if not colon or not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name) or "\n" in value:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME: VALUE")
    return name, value.strip()


def setting(text: str) -> tuple[str, Any]:
    """Parse ``OPTION=VALUE``, an option of ``servekit start``; ``true`` and ``false`` are flags."""
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not OPTION=VALUE")
    words: Mapping[str, Any] = {"true": True, "false": False}
    return name.replace("-", "_"), words.get(value, value)
