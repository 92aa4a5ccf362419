# SPDX-License-Identifier: Apache-2.0
"""A model, as plugins see it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from servekit.ipc.table import Interface

__all__ = ["ModelStatistics", "ModelView"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelView:
    """One version of a model that is served, or will be once it has loaded."""

    name: str
    version: str
    #: input and output of its ``predict``: signature, JSON schemas, media types; ``None`` until a
    #: worker of the model has been ready
    interface: Interface | None
    max_batch_size: int = 1  #: inputs in one call of ``predict``
    #: in front-ends: how many each stage has, by its name; that of an only stage is ""
    replicas: Mapping[str, int] = field(default_factory=dict)
    source: str = ""  #: path or URL that it was loaded from; "" if that is not known here
    directory: Path | None = None  #: where its files are; ``None`` until it has been unpacked
    #: for the default version: the other loaded versions by name, and all of them by their aliases
    others: Mapping[str, ModelView] = field(default_factory=dict)

    def find_version(self, name: str) -> ModelView | None:
        """Return the version or the alias *name*; "" is this one."""
        return self if name in ("", self.version) else self.others.get(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelStatistics:
    """The work of one version of a model since the server started, in all front-ends."""

    statuses: Mapping[int, int]  #: how many responses had each status
    response_s: float  #: sum of the times from request to response, of those with an output
    inputs: int  #: inputs of all calls of ``predict``
    batches: int
    queue_s: float  #: sum of the times that the oldest input of each batch waited
    predict_s: float  #: sum of the times in ``predict``
    failed_s: float = 0.0  #: sum of the times from request to error
    decode_s: float = 0.0  #: sum of the times to decode the inputs of a batch
    encode_s: float = 0.0  #: sum of the times to encode the outputs of a batch
    #: how many responses with an output took at most each of ``servekit.extension.DURATIONS``, but
    #: longer than the one before it; the last number is for longer ones
    durations: Sequence[int] = ()
    waiting: int = 0  #: tasks in the queues; sampled ten times a second, as *running* is
    running: int = 0  #: tasks that workers have
    last_batch_at: float = 0.0  #: Unix time of the last answer of a worker; 0.0: there was none
