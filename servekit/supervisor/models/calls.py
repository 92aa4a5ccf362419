# SPDX-License-Identifier: Apache-2.0
"""Models that call one another in a circle could wait for themselves: none is served."""

from collections.abc import Collection, Mapping

__all__ = ["cycle_problem"]


def cycle_problem(name: str, calls: Mapping[str, Collection[str]]) -> str:
    """Return the cycle that the model *name* is part of, as a problem; "" if there is none.

    :param calls: the models that each model calls, by name.
    """
    path = _way(name, name, calls, set())
    return f"calls: {' -> '.join(path)} is a cycle" if path else ""


def _way(start: str, goal: str, calls: Mapping[str, Collection[str]], seen: set[str]) -> list[str]:
    """Return the names on a way from *start* to *goal*; [] if none leads there."""
    for called in calls.get(start, ()):
        if called == goal:
            return [start, goal]
        if called not in seen:
            seen.add(called)
            if rest := _way(called, goal, calls, seen):
                return [start, *rest]
    return []
