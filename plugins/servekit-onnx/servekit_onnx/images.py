# SPDX-License-Identifier: Apache-2.0
"""Serves a graph that takes pictures: files in; labels with probabilities, or arrays, out."""

from collections.abc import Mapping, Sequence
from typing import Any

from servekit.errors import BootError
from servekit.types import Image
from servekit.vision import ClassOutput, ImageInput, ImageOptions, RankedLabel
from servekit_onnx.graph import type_of_outputs
from servekit_onnx.runner import GraphRunner, items_of

__all__ = ["ImageAdapter"]

PLACE = "[options.image]"


class ImageAdapter:
    """Makes the input of pictures."""

    signature: Mapping[str, Any] | None = None
    input_type: Any = Image
    task = ""

    def __init__(
        self, runner: GraphRunner, options: ImageOptions, output: ClassOutput | None
    ) -> None:
        """Fit *options* to the graph of *runner*, and try it.

        :param output: ``None`` answers with the outputs of the graph.
        :raises BootError: they do not go together.
        """
        graph = runner.graph
        if len(graph.inputs) != 1:
            names = ", ".join(tensor["name"] for tensor in graph.inputs)
            raise BootError(f"{PLACE}: the graph has several inputs, {names}")
        only = graph.inputs[0]
        self._runner, self._name, self._output = runner, only["name"], output
        self._input = ImageInput(options, only["shape"], only["dtype"])
        found = runner.try_run({self._name: self._input.samples()}, PLACE)
        if output is not None:
            output.settle(found[0])
        self.output_type: Any = type_of_outputs(graph) if output is None else list[RankedLabel]

    def warm_up(self) -> None:
        """Do nothing: the graph has been tried."""

    def answers(self, batch: Sequence[Image]) -> list[Any]:
        """Return the answer to each picture."""
        outputs = self._runner.run({self._name: self._input.batch(batch)})
        if self._output is None:
            return items_of(self._runner.graph.output_names, outputs)
        return self._output.answers(outputs[0])

    def singles(self, batch: Sequence[Image]) -> list[list[Image]]:
        """Return a batch for each picture."""
        return [[image] for image in batch]

    def answer(self, single: Sequence[Image]) -> Any:
        """Return the answer to a batch of one."""
        return self.answers(single)[0]
