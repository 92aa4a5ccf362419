# SPDX-License-Identifier: Apache-2.0
"""The counts of the supervisor, which go to the front-ends with the routing table."""

from msgspec import Struct

__all__ = ["CAUSES", "MOST_VERSIONS", "RELOADS", "RESTART", "Tally"]

#: why a worker ended, or could not load
CAUSES = (
    *("exited", "hung", "killed", "load_failed", "load_timeout", "not_started"),
    *("out_of_memory", "signal"),
)
RELOADS = ("loaded", "unchanged", "failed")  #: the results of reloads
RESTART = "restart"  #: among the causes in a tally: a worker is started to replace another
MOST_VERSIONS = 8  #: of one model whose troubles are remembered; the oldest are forgotten


class Tally(Struct):
    """The counts of the supervisor since it started."""

    started: float = 0.0  #: Unix time at which the supervisor started
    #: by model, version ("" if it is not known) and one of ``CAUSES`` or ``RESTART``
    troubles: dict[str, dict[str, dict[str, int]]] = {}
    reloads: dict[str, int] = {}  #: by result
    operations: dict[str, dict[str, int]] = {}  #: by kind and result

    def restarted(self, model: str, version: str) -> None:
        """Count a worker that is started in place of another."""
        self.crashed(model, version, RESTART)

    def crashed(self, model: str, version: str, cause: str) -> None:
        """Count a worker that ended unexpectedly, or a failed load."""
        versions = self.troubles.setdefault(model, {})
        causes = versions.setdefault(version, {})
        causes[cause] = causes.get(cause, 0) + 1
        if len(versions) > MOST_VERSIONS:
            del versions[next(iter(versions))]

    def operated(self, kind: str, result: str) -> None:
        """Count an operation that has ended."""
        results = self.operations.setdefault(kind, {})
        results[result] = results.get(result, 0) + 1

    def reloaded(self, result: str) -> None:
        """Count the result of the reload of one model."""
        self.reloads[result] = self.reloads.get(result, 0) + 1
