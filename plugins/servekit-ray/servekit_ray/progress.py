# SPDX-License-Identifier: Apache-2.0
"""Sentences for people who wait for a deployment."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from servekit_ray.state import DeploymentStatus

__all__ = ["Progress", "in_words", "show_steps", "silent"]

#: gets a sentence about each step
Progress: TypeAlias = Callable[[str], None]


def silent(_text: str) -> None:
    """Tell nobody."""


def show_steps(steps: Sequence[str], shown: int, progress: Progress) -> int:
    """Pass the steps after those *shown* to *progress*, and return how many are shown then."""
    for step in steps[shown:]:
        progress(step)
    return max(shown, len(steps))


def in_words(status: DeploymentStatus) -> str:
    """Say how far a deployment is."""
    counts: dict[str, int] = {}
    for server in status.servers:
        counts[server.state] = counts.get(server.state, 0) + 1
    parts = [f"{count} {state}" for state, count in sorted(counts.items())]
    return f"{len(status.ready)} of {status.target} servers serve ({', '.join(parts) or 'none'})"
