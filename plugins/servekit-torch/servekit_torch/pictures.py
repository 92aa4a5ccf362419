# SPDX-License-Identifier: Apache-2.0
"""Models that take pictures: files in; labels with probabilities, or arrays, out."""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import numpy as np

from servekit.errors import BootError
from servekit.types import Array, Image
from servekit.vision import ClassOutput, ImageInput, ImageOptions, RankedLabel
from servekit_torch.opened import Declared
from servekit_torch.running import Arrays, Batch
from servekit_torch.weights import one_line

__all__ = ["PictureAnswers"]


class PictureAnswers:
    """Makes the input of pictures."""

    signature: Mapping[str, Any] | None = None
    input_type: Any = Image

    def __init__(
        self,
        run: Callable[[Batch], Arrays],
        inputs: Sequence[Declared],
        options: ImageOptions,
        output: ClassOutput | None,
    ) -> None:
        """Fit *options* to the model, and try it.

        :param output: ``None`` answers with the outputs of the model.
        :raises BootError: they do not go together.
        """
        if len(inputs) != 1:
            names = ", ".join(each["name"] for each in inputs)
            raise BootError(f"[options.image]: the model has several inputs, {names}")
        self._name, self._output = inputs[0]["name"], output
        self._input = ImageInput(options, inputs[0]["shape"], inputs[0]["dtype"])
        found = _try(run, {self._name: self._input.samples()})
        if output is not None:
            output.settle(_scores(found))
        self.output_type: Any = _type_of(found) if output is None else list[RankedLabel]

    def arrays(self, batch: Sequence[Image]) -> Batch:
        """Return the array of the pictures."""
        return {self._name: self._input.batch(batch)}

    def all_of(self, outputs: Arrays) -> list[Any]:
        """Return the answer to each picture."""
        if self._output is not None:
            return self._output.answers(_scores(outputs))
        if len(outputs) == 1:
            return list(*outputs.values())
        return [
            dict(zip(outputs, rows, strict=True)) for rows in zip(*outputs.values(), strict=True)
        ]

    def first_of(self, outputs: Arrays) -> Any:
        """Return the answer to the first picture."""
        return self.all_of(outputs)[0]


def _try(run: Callable[[Batch], Arrays], batch: Batch) -> Arrays:
    try:
        return run(batch)
    except BootError:
        raise
    except Exception as error:  # noqa: BLE001 - a model raises anything
        reason = one_line(error)
        raise BootError(f"[options.image]: the model refuses what it makes ({reason})") from None


def _scores(outputs: Arrays) -> Any:
    if len(outputs) > 1:
        names = ", ".join(outputs)
        raise BootError(f"[options] outputs: name the one with the scores of the classes: {names}")
    return next(iter(outputs.values()))


def _type_of(outputs: Arrays) -> Any:
    """Return the type of what the model gives for one picture, as an annotation."""
    if len(outputs) > 1:
        return dict[str, Any]
    only = next(iter(outputs.values()))
    return Annotated[np.ndarray, Array(only.dtype.name, only.shape[1:])]
