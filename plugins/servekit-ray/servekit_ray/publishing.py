# SPDX-License-Identifier: Apache-2.0
"""``servekit ray addresses`` and ``ray ingress``: the servers, for clients outside the cluster."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from servekit_ingress.command import add_arguments, run
from servekit_ingress.publishing import publish, replace_file

from servekit_ray.discovery import RayDiscovery

__all__ = ["add_addresses", "add_ingress", "run_addresses", "run_ingress"]

ADDRESSES_EPILOG = """\
examples:
  servekit ray addresses -o servers.json
  servekit ray addresses --follow -o /shared/servers.json
"""
INGRESS_EPILOG = """\
examples:
  servekit ray ingress haproxy -o /etc/haproxy/haproxy.cfg \\
      --follow --on-change 'systemctl reload haproxy'
  servekit ray ingress envoy -o envoy.json --follow
"""


def add_addresses(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``addresses``."""
    parser.epilog = ADDRESSES_EPILOG
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FILE", help="a JSON list of URLs"
    )
    parser.add_argument(
        "--follow", action="store_true", help="write it again whenever the servers change"
    )


def run_addresses(parsed: argparse.Namespace) -> int:
    """Write the addresses, as ``FileDiscovery`` reads them: once, or until Ctrl-C."""
    path: Path = parsed.output
    written: list[str] = []

    def write(urls: Sequence[str]) -> None:
        nonlocal written
        if (found := sorted(urls)) != written:
            replace_file(path, json.dumps(found) + "\n")
            print(f"{path}: {', '.join(found)}", file=sys.stderr)
            written = found

    discovery = RayDiscovery(parsed.name, parsed.address)
    return publish(discovery, write, follow=parsed.follow)


def add_ingress(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``ingress``."""
    parser.epilog = INGRESS_EPILOG
    add_arguments(parser)


def run_ingress(parsed: argparse.Namespace) -> int:
    """Write a configuration of HAProxy or Envoy for the servers."""
    return run(parsed, RayDiscovery(parsed.name, parsed.address))
