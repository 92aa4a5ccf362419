# SPDX-License-Identifier: Apache-2.0
"""Decides whether a model takes pictures or arrays, and makes answers of its outputs."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from servekit import Context
from servekit.errors import BootError
from servekit.vision import (
    ClassOutput,
    ImageOptions,
    OutputOptions,
    find_labels,
    why_not_pictures,
)
from servekit_torch.options import TorchOptions
from servekit_torch.running import Arrays, Batch

__all__ = ["AnswerMaker", "answers_for", "refuse_contradictions"]

Signature = Mapping[str, Any]


class AnswerMaker(Protocol):
    """Between what clients send and the arrays of a model."""

    signature: Signature | None
    input_type: Any  #: ``None`` if there is a signature
    output_type: Any

    def arrays(self, batch: Any) -> Batch:
        """Return the inputs of the model for a batch of ``Service.predict``."""

    def all_of(self, outputs: Arrays) -> Any:
        """Return an answer for each row of the outputs of the model."""

    def first_of(self, outputs: Arrays) -> Any:
        """Return the answer for the first row."""


class ArrayAnswers:
    """Passes arrays on; a single output goes without its name."""

    input_type: Any = None
    output_type: Any = None

    def __init__(self, signature: Signature) -> None:
        """Serve the model by its *signature*."""
        self.signature: Signature | None = signature

    def arrays(self, batch: Batch) -> Batch:
        """Return *batch*."""
        return batch

    def all_of(self, outputs: Arrays) -> Any:
        """Return arrays of n rows."""
        return next(iter(outputs.values())) if len(outputs) == 1 else outputs

    def first_of(self, outputs: Arrays) -> Any:
        """Return the first row of each array."""
        return self.all_of({name: rows[0] for name, rows in outputs.items()})


def refuse_contradictions(options: TorchOptions, declared: Signature | None) -> None:
    """Refuse options for pictures beside a signature, which says that arrays are taken.

    :raises BootError: there are such options.
    """
    given = [key for key in ("image", "output") if getattr(options, key) is not None]
    if declared is not None and given:
        raise BootError(f"[signature]: says that arrays are taken; leave out [options.{given[0]}]")


def answers_for(
    options: TorchOptions,
    signature: Signature,
    run: Callable[[Batch], Arrays],
    context: Context,
    *,
    is_declared: bool,
) -> AnswerMaker:
    """Return what serves a model with *signature*, whose outputs *run* computes.

    :param is_declared: ``model.toml`` has the signature, so the model takes arrays.
    :raises BootError: options contradict one another, the model, or the files of the archive.
    """
    if is_declared:
        return ArrayAnswers(signature)
    labels = find_labels(context.directory, options.output.labels if options.output else "")
    is_classifier = options.output is not None or labels is not None
    if options.image is None:
        reason = why_not_pictures(signature["inputs"], signature["outputs"])
        if options.output is not None and reason:
            raise BootError(f"[options.output]: needs [options.image], {reason}")
        if is_classifier and reason:
            context.logger.info("labels are not used: %s", reason)
        if reason or not is_classifier:
            return ArrayAnswers(signature)
    from servekit_torch.pictures import PictureAnswers  # imports Pillow

    output = ClassOutput(options.output or OutputOptions(), labels) if is_classifier else None
    return PictureAnswers(run, signature["inputs"], options.image or ImageOptions(), output)
