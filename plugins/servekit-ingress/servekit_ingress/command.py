# SPDX-License-Identifier: Apache-2.0
"""``servekit ingress``: writes a configuration, and writes it again when the servers change."""

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from servekit.client import Discovery, DnsDiscovery, FileDiscovery
from servekit.errors import StartupError
from servekit.extension.commands import Run
from servekit.settings.arguments import count, port
from servekit_ingress.envoy import envoy
from servekit_ingress.haproxy import haproxy
from servekit_ingress.nodes import IngressOptions, NodeAddress, addresses, is_address
from servekit_ingress.publishing import publish, replace_file

__all__ = ["add_arguments", "configure", "run"]

EPILOG = """\
Envoy reads the servers from a file of their own beside FILE (for envoy.json it is
envoy-http.json), and reads it again whenever it is replaced. HAProxy is reloaded by the command
that you give with --on-change.

examples:
  servekit ingress haproxy --servers http://10.0.0.7:8080 http://10.0.0.8:8080 -o haproxy.cfg
  servekit ingress haproxy --servers-file servers.json -o /etc/haproxy/haproxy.cfg \\
      --follow --on-change 'systemctl reload haproxy'
  servekit ingress envoy --dns http://digits.default.svc:8080 -o envoy.json --follow
"""


class GivenServers(Discovery):
    """The servers of the command line."""

    def __init__(self, urls: Sequence[str]) -> None:
        """Find *urls*, always."""
        self._urls = urls

    def urls(self) -> Sequence[str]:
        """Return them."""
        return self._urls


def configure(parser: argparse.ArgumentParser) -> Run:
    """Add the arguments, and return what runs the command."""
    parser.epilog = EPILOG
    add_arguments(parser)
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--servers", nargs="+", metavar="URL", help="servers: http://HOST:PORT")
    where.add_argument(
        "--servers-file", type=Path, metavar="JSON", help="a file with a JSON list of URLs"
    )
    where.add_argument("--dns", metavar="URL", help="every address of the host in URL is a server")
    return lambda parsed: run(parsed, _discovery(parsed))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add all arguments except those that say where the servers are."""
    parser.add_argument("proxy", choices=("haproxy", "envoy"), help="what the file is for")
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FILE", help="is replaced if it exists"
    )
    parser.add_argument(
        "--listen",
        type=_listen,
        default=NodeAddress("127.0.0.1", 8000),
        metavar="HOST:PORT",
        help="where clients connect (default: 127.0.0.1:8000)",
    )
    parser.add_argument(
        "--grpc",
        type=port,
        default=0,
        metavar="PORT",
        help="the port of gRPC, of all servers and of the proxy (default: no gRPC)",
    )
    parser.add_argument(
        "--timeout",
        type=count,
        default=75,
        metavar="SECONDS",
        help="longest wait for a response or its next part: more than any predict_timeout "
        "(default: 75)",
    )
    parser.add_argument(
        "--repeat",
        action="store_true",
        help="send requests again that got a 503 or no response: they may then run twice",
    )
    parser.add_argument(
        "--follow", action="store_true", help="write the file again whenever the servers change"
    )
    parser.add_argument(
        "--on-change", metavar="COMMAND", help="a shell command to run after each write"
    )


def run(parsed: argparse.Namespace, discovery: Discovery) -> int:
    """Write the files of *parsed* for the servers that *discovery* finds.

    :raises StartupError: no servers were found, or a file cannot be written.
    """
    if parsed.grpc == parsed.listen.port:
        raise StartupError(f"--grpc {parsed.grpc}: is the port of --listen, too")
    options = IngressOptions(parsed.listen, parsed.grpc, parsed.timeout, parsed.repeat)
    files = _ProxyFiles(parsed.proxy, parsed.output, options)

    def write(urls: Sequence[str]) -> None:
        nodes = addresses(urls)
        if files.update(nodes):
            print(f"{parsed.output}: {', '.join(map(str, nodes))}", file=sys.stderr)
            if parsed.on_change:
                _run_shell(parsed.on_change)

    return publish(discovery, write, follow=parsed.follow)


class _ProxyFiles:
    """The files of one proxy, as they were written last."""

    def __init__(self, proxy: str, path: Path, options: IngressOptions) -> None:
        self._is_envoy = proxy == "envoy"
        self._path = path
        self._options = options
        self._texts: dict[Path, str] = {}

    def update(self, nodes: Sequence[NodeAddress]) -> bool:
        """Replace the files that change with *nodes*; whether there are any."""
        texts = self._texts_for(nodes)
        changed = {path: text for path, text in texts.items() if self._texts.get(path) != text}
        for path, text in changed.items():
            replace_file(path, text)
        self._texts = texts
        return bool(changed)

    def _texts_for(self, nodes: Sequence[NodeAddress]) -> dict[Path, str]:
        if not self._is_envoy:
            return {self._path: haproxy(self._options, nodes)}
        documents = envoy(self._options, nodes, self._path)
        return {path: json.dumps(each, indent=2) + "\n" for path, each in documents.items()}


def _discovery(parsed: argparse.Namespace) -> Discovery:
    if parsed.servers_file is not None:
        return FileDiscovery(parsed.servers_file)
    if parsed.dns is None:
        return GivenServers(parsed.servers)
    try:
        return DnsDiscovery(parsed.dns)
    except ValueError as error:
        raise StartupError(str(error)) from error


def _run_shell(command: str) -> None:
    status = subprocess.run(command, shell=True, check=False).returncode  # noqa: S602 - it is the operator's
    if status:
        print(f"{command}: exit status {status}", file=sys.stderr)


def _listen(text: str) -> NodeAddress:
    host, _, number = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not number.isdecimal() or not is_address(host, int(number)):
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT")
    return NodeAddress(host, int(number))
