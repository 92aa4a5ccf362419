# SPDX-License-Identifier: Apache-2.0
"""Output of ``servekit ray``: a deployment as a table or as JSON, and progress."""

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from servekit_ray.state import DeploymentStatus, plain

__all__ = ["noted_at_ctrl_c", "show", "show_progress", "table"]


@contextmanager
def noted_at_ctrl_c(text: str) -> Iterator[None]:
    """Say what continues in the cluster if Ctrl-C ends the command."""
    try:
        yield
    except KeyboardInterrupt:
        sys.stderr.write(f"servekit: {text}\n")
        raise


def show_progress(text: str) -> None:
    """Tell people what happens, and not the programs that read the output."""
    if sys.stderr.isatty():
        sys.stderr.write(f"{text}\n")


def show(parsed: argparse.Namespace, status: DeploymentStatus) -> int:
    """Print a deployment."""
    if parsed.json:
        print(json.dumps(plain(status), indent=2))
    else:
        print("\n".join(table(status)))
    return 0


def table(status: DeploymentStatus) -> list[str]:
    """Return a deployment as lines for people."""
    bounds = f", from {status.minimum} to {status.maximum}" * (status.minimum < status.maximum)
    lines = [f"{status.name}: {len(status.ready)} of {status.target} servers serve{bounds}"]
    lines += [f"  problem: {status.problem}"] if status.problem else []
    for name, model in status.order.models.items():
        lines.append(f"  model     {name}: {model.url or model.file}")
    if (operation := status.operation) is not None:
        text = f": {operation.error}" if operation.error else ""
        lines.append(f"  swap      of {operation.model}: {operation.state}{text}")
    for each in status.servers:
        lines.append(
            f"  {each.state:8}  {each.url or '-':28}  Ray node {each.ray_node[:12] or '-'}"
        )
    return lines
