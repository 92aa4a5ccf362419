# SPDX-License-Identifier: Apache-2.0
"""Decides whether a graph takes pictures, text or arrays, by its options, files and inputs."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Protocol

from servekit import Context
from servekit.errors import BootError
from servekit.vision import (
    ClassOutput,
    ImageOptions,
    OutputOptions,
    find_labels,
    has_classes,
    read_labels,
    why_not_pictures,
)
from servekit_onnx.graph import Graph, Tensor
from servekit_onnx.options import OnnxOptions, TextOptions
from servekit_onnx.runner import GraphRunner
from servekit_onnx.tensors import TensorAdapter
from servekit_onnx.texts import TextAdapter, takes_texts
from servekit_onnx.tokens import TextTokenizer

__all__ = ["Adapter", "adapter_for"]

#: names that sentence-transformers and Transformers give to the output with vectors
VECTORS: Final = ("sentence_embedding", "last_hidden_state")


class Adapter(Protocol):
    """Between what clients send and the arrays of a graph."""

    signature: Mapping[str, Any] | None
    input_type: Any  #: ``None`` if there is a signature
    output_type: Any
    task: str

    def warm_up(self) -> None:
        """Run the graph once, if that has not been done."""

    def answers(self, batch: Any) -> Any:
        """Return the answers to a batch, as ``Service.predict`` does.

        :raises InvalidArgument: the graph refuses an input.
        """

    def singles(self, batch: Any) -> list[Any]:
        """Return a batch for each input of *batch*."""

    def answer(self, single: Any) -> Any:
        """Return the answer to a batch of one.

        :raises InvalidArgument: the graph refuses it.
        """


def adapter_for(
    options: OnnxOptions,
    runner: GraphRunner,
    context: Context,
    declared: Mapping[str, Any] | None,
) -> Adapter:
    """Return what serves the graph of *runner*.

    :param declared: the ``[signature]`` of ``model.toml``, with which the graph takes arrays.
    :raises BootError: options contradict one another, the graph, or the files of the model.
    """
    _check(options, declared)
    if declared is not None:
        return TensorAdapter(runner, declared)
    if (text := _text_options(options, runner.graph, context.directory)) is not None:
        return _text_adapter(runner, text, options.output, context.directory)
    return _image_adapter(runner, options, context) or TensorAdapter(runner, declared)


def _check(options: OnnxOptions, declared: Mapping[str, Any] | None) -> None:
    given = [key for key in ("image", "text", "output") if getattr(options, key) is not None]
    if declared is not None and given:
        raise BootError(f"[signature]: says that arrays are taken; leave out [options.{given[0]}]")
    if options.image is not None and options.text is not None:
        raise BootError("[options.text]: contradicts [options.image]; keep one of the two")
    if options.text is not None and not options.batched:
        raise BootError("[options.text]: needs batched = true")


# ------------------------------------------------------------ pictures


def _image_adapter(runner: GraphRunner, options: OnnxOptions, context: Context) -> Adapter | None:
    """Return what makes pictures the input; ``None`` if the graph takes arrays."""
    labels = find_labels(context.directory, options.output.labels if options.output else "")
    is_classifier = options.output is not None or labels is not None
    if options.image is None:
        reason = why_not_pictures(runner.graph.inputs, _outputs(runner.graph))
        if options.output is not None and reason:
            raise BootError(f"[options.output]: needs [options.image] or [options.text], {reason}")
        if not is_classifier:
            return None
        if reason:
            context.logger.info("labels are not used: %s", reason)
            return None
    if is_classifier and len(runner.graph.output_names) > 1:
        names = ", ".join(runner.graph.output_names)
        raise BootError(f"[options] outputs: name the one with the scores of the classes: {names}")
    from servekit_onnx.images import ImageAdapter  # imports Pillow

    output = ClassOutput(options.output or OutputOptions(), labels) if is_classifier else None
    return ImageAdapter(runner, options.image or ImageOptions(), output)


def _outputs(graph: Graph) -> list[Tensor]:
    """Return the outputs of *graph*, or none if it has others that are not tensors."""
    return graph.outputs if len(graph.outputs) == len(graph.output_names) else []


# ------------------------------------------------------------ text


def _text_options(options: OnnxOptions, graph: Graph, directory: Path) -> TextOptions | None:
    """Return how text becomes ids; ``None`` if the graph does not take text."""
    if options.text is not None or options.image is not None or not options.batched:
        return options.text
    default = TextOptions()
    is_text = (directory / default.tokenizer).is_file() and takes_texts(graph)
    return default if is_text else None


def _text_adapter(
    runner: GraphRunner, text: TextOptions, output: OutputOptions | None, directory: Path
) -> TextAdapter:
    graph = _with_one_output(runner.graph)
    if not takes_texts(graph):
        names = ", ".join(tensor["name"] for tensor in graph.inputs)
        raise BootError(
            f"[options.text]: the graph takes {names}; expected input_ids, and at most "
            "attention_mask and token_type_ids, each integers of the shape [batch, tokens]"
        )
    tokenizer = TextTokenizer(directory, text, graph.inputs[0]["shape"][0])
    labels = find_labels(directory, output.labels if output else "") or _labels_of_config(directory)
    is_classifier = output is not None or (labels is not None and has_classes(_outputs(graph)))
    classes = ClassOutput(output or OutputOptions(), labels) if is_classifier else None
    return TextAdapter(runner.with_graph(graph), text, tokenizer, classes)


def _with_one_output(graph: Graph) -> Graph:
    """Return *graph* with the output that holds vectors, if it has several."""
    names = graph.output_names
    if len(names) == 1:
        return graph
    known: list[str] = [name for name in VECTORS if name in names]
    if not known:
        raise BootError(f"[options] outputs: name one of {', '.join(names)}")
    outputs = [tensor for tensor in graph.outputs if tensor["name"] == known[0]]
    return replace(graph, outputs=outputs, output_names=known[:1])


def _labels_of_config(directory: Path) -> list[str] | None:
    """Return the labels in the ``config.json`` of Transformers, if it has any."""
    path = directory / "config.json"
    has_labels = path.is_file() and '"id2label"' in path.read_text(encoding="utf-8")
    return read_labels(path) if has_labels else None
