# SPDX-License-Identifier: Apache-2.0
"""``servekit ray``: the API of ``deployment``, on the command line."""

import argparse
import json
from collections.abc import Callable
from typing import Final

from servekit.errors import StartupError
from servekit.extension.commands import Run
from servekit.settings import parse_models
from servekit.settings.arguments import count, duration_or_zero, free_port, nonnegative
from servekit_ray.arguments import bounds, in_range, variable
from servekit_ray.deployment import RayDeployment, connect, deploy
from servekit_ray.output import noted_at_ctrl_c, show, show_progress
from servekit_ray.publishing import add_addresses, add_ingress, run_addresses, run_ingress

__all__ = ["configure"]

EPILOG: Final = """\
Run it on a machine of the cluster. servekit, this plugin and what the models need must be
installed on all of its machines. `ray start --head` makes a cluster of one machine.

examples:
  servekit ray deploy digits.mar --nodes 2 --replicas 4
  servekit ray deploy digits.mar --autoscale 1:8 --gpus 1
  servekit ray status
  servekit ray ingress haproxy -o haproxy.cfg --follow
  servekit ray swap digits digits-2.mar
  servekit ray scale 4
  servekit ray down
"""
DEPLOY_EPILOG: Final = """\
examples:
  servekit ray deploy digits.mar --nodes 2 --replicas 4
  servekit ray deploy a.mar two=s3://models/b.mar --nodes 3 --name shop --address 10.0.0.1:6379
  servekit ray deploy digits.mar --nodes 2 --gpus 2 --env SERVEKIT_MAX_BODY=50MiB
  servekit ray deploy digits.mar --set digits.batching.max_batch_size=16
"""
SWAP_EPILOG: Final = """\
Each server verifies the new version, loads it beside the old one, and tries it with the examples of
its archive. The first server that refuses it ends the swap: servers that have swapped return to the
old version. Ctrl-C ends the command, not the swap.

examples:
  servekit ray swap digits digits-2.mar
  servekit ray swap digits digits-2.mar --watch 60
"""


def configure(parser: argparse.ArgumentParser) -> Run:
    """Add the commands, and return what runs one."""
    parser.epilog = EPILOG
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, summary, add, run in COMMANDS:
        each = commands.add_parser(
            name,
            help=summary,
            description=f"{summary[0].upper()}{summary[1:]}.",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        add_connection(each)
        if run not in (run_addresses, run_ingress):  # these write files
            each.add_argument("--json", action="store_true", help="print a JSON object")
        add(each)
        each.set_defaults(run_ray=run)
    return run_command


def run_command(parsed: argparse.Namespace) -> int:
    """Run the chosen command."""
    status: int = parsed.run_ray(parsed)
    return status


def add_connection(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that say which deployment is meant."""
    parser.add_argument(
        "--name", default="servekit", help="name of the deployment (default: servekit)"
    )
    parser.add_argument(
        "--address",
        default="auto",
        metavar="HOST:PORT",
        help="address of the Ray cluster (default: RAY_ADDRESS, or the one of this machine)",
    )


def add_deploy(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``deploy``."""
    parser.epilog = DEPLOY_EPILOG
    parser.add_argument("models", nargs="+", metavar="MODEL", help="archive or URL, or NAME=MODEL")
    parser.add_argument(
        "--nodes", type=count, default=1, metavar="N",
        help="number of servers, at most one on each Ray node (default: 1)",
    )  # fmt: skip
    parser.add_argument(
        "--autoscale", type=bounds, metavar="MIN:MAX",
        help="as many servers as the load needs, by how long requests wait",
    )  # fmt: skip
    parser.add_argument(
        "--replicas", type=count, default=0, metavar="N",
        help="workers of each model on each server (default: as its manifest says)",
    )  # fmt: skip
    parser.add_argument(
        "--cpus", type=nonnegative, metavar="N",
        help="CPUs that Ray sets aside for a server (default: one for each worker, as archives and"
        " --set say; a model with a URL counts as one)",
    )  # fmt: skip
    parser.add_argument(
        "--gpus",
        type=nonnegative,
        default=0,
        metavar="N",
        help="GPUs of a server (default: 0)",
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME.KEY=VALUE", dest="settings",
        help="a setting of a model, as for servekit start; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--env", action="append", default=[], type=variable, metavar="NAME[=VALUE]",
        help="a variable of the servers, such as a setting: SERVEKIT_QUEUE=200; NAME alone takes"
        " the value from the environment of this command, for secrets; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--port",
        type=free_port,
        default=0,
        metavar="N",
        help="of every server (default: a free one)",
    )
    add_timeout(parser)


def add_scale(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``scale``."""
    parser.epilog = "examples:\n  servekit ray scale 4\n  servekit ray scale 2:8\n"
    parser.add_argument("servers", type=bounds, metavar="N|MIN:MAX", help="number of servers")
    add_timeout(parser)


def add_swap(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``swap``."""
    parser.epilog = SWAP_EPILOG
    parser.add_argument("model", metavar="MODEL", help="name of the model")
    parser.add_argument("archive", metavar="ARCHIVE", help="archive or URL")
    parser.add_argument(
        "--watch", type=duration_or_zero, default=10, metavar="TIME",
        help="how long each server watches the new version (default: 10)",
    )  # fmt: skip


def add_timeout(parser: argparse.ArgumentParser) -> None:
    """Add the longest wait."""
    parser.add_argument(
        "--timeout", type=duration_or_zero, default=300, metavar="TIME",
        help="longest wait until all servers serve (default: 300)",
    )  # fmt: skip


def run_deploy(parsed: argparse.Namespace) -> int:
    """Deploy, and show where it serves."""
    deployment = deploy(
        parsed.models,
        nodes=parsed.nodes,
        replicas=parsed.replicas,
        name=parsed.name,
        address=parsed.address,
        autoscale=parsed.autoscale,
        cpus=parsed.cpus,
        gpus=parsed.gpus,
        settings=parsed.settings,
        env=dict(parsed.env),
        port=parsed.port,
        timeout_s=parsed.timeout,
        progress=show_progress,
    )
    return show(parsed, deployment.status())


def run_status(parsed: argparse.Namespace) -> int:
    """Show the servers."""
    status = found(parsed).status()
    show(parsed, status)
    return 0 if len(status.ready) >= status.target else 1


def run_scale(parsed: argparse.Namespace) -> int:
    """Change the number of servers, and wait for it."""
    deployment = found(parsed)
    before = deployment.status()
    deployment.scale(*parsed.servers)
    rest = (
        f"the deployment still works towards {in_range(*parsed.servers)} servers; "
        f"servekit ray scale {in_range(before.minimum, before.maximum)} takes that back"
    )
    try:
        with noted_at_ctrl_c(rest):
            return show(parsed, deployment.wait(parsed.timeout, show_progress))
    except StartupError as error:
        raise StartupError(f"{error}\n{rest}") from error


def run_swap(parsed: argparse.Namespace) -> int:
    """Swap a model server by server."""
    parse_models([parsed.archive])  # a misspelled path is found before the cluster is asked
    deployment = found(parsed)
    with noted_at_ctrl_c("the swap continues; servekit ray status shows how it ends"):
        deployment.swap(parsed.model, parsed.archive, watch_s=parsed.watch, progress=show_progress)
    return show(parsed, deployment.status())


def run_down(parsed: argparse.Namespace) -> int:
    """End the deployment."""
    deployment = found(parsed)
    show_progress("servers finish their requests")
    with noted_at_ctrl_c("the servers still end; servekit ray down then frees the name"):
        deployment.down()
    print(json.dumps({"name": parsed.name}) if parsed.json else f"{parsed.name}: ended")
    return 0


def found(parsed: argparse.Namespace) -> RayDeployment:
    """Return the deployment that the arguments name."""
    return connect(parsed.name, parsed.address)


#: name, summary, what adds its arguments, what runs it
Row = tuple[
    str, str, Callable[[argparse.ArgumentParser], None], Callable[[argparse.Namespace], int]
]
COMMANDS: Final[list[Row]] = [
    ("deploy", "serve models on Ray nodes, and wait until they serve", add_deploy, run_deploy),
    ("status", "show the servers; exit status 1 if some are missing", lambda _: None, run_status),
    (
        "addresses",
        "write the addresses of the servers to a file, for clients outside the cluster",
        add_addresses,
        run_addresses,
    ),
    ("ingress", "put the servers behind HAProxy or Envoy", add_ingress, run_ingress),
    ("swap", "replace a model on one server after another", add_swap, run_swap),
    ("scale", "change the number of servers", add_scale, run_scale),
    ("down", "drain and end all servers", lambda _: None, run_down),
]
