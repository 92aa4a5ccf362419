# SPDX-License-Identifier: Apache-2.0
"""The classes of a model, as its ``config.json`` names them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from servekit.vision import ClassOutput, OutputOptions, find_labels

if TYPE_CHECKING:
    from pathlib import Path

    from servekit.vision.options import Activation

__all__ = ["class_output", "label_names"]


def class_output(config: Any, options: OutputOptions, directory: Path) -> ClassOutput:
    """Return how scores become an answer: by *options*, and otherwise by *config*.

    :param directory: of the model, in which *options* may name a file of labels.
    """
    labels = find_labels(directory, options.labels) if options.labels else label_names(config)
    return ClassOutput(
        replace(options, activation=options.activation or _activation(config)), labels
    )


def label_names(config: Any) -> list[str]:
    """Return the label of each class."""
    return [str(config.id2label[index]) for index in range(config.num_labels)]


def _activation(config: Any) -> Activation:
    """Return the activation for the kind of problem, as the pipelines of transformers do."""
    if config.problem_type == "regression":
        return "none"
    is_multiple = config.problem_type == "multi_label_classification"
    return "sigmoid" if is_multiple or config.num_labels == 1 else "softmax"
