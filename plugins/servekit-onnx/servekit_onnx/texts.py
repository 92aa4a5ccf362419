# SPDX-License-Identifier: Apache-2.0
"""Serves a graph that takes token ids: text in; vectors, or labels with probabilities, out."""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final

import numpy as np
from msgspec import Meta, Struct, defstruct

from servekit.errors import BootError
from servekit.types import Array
from servekit.vision import ClassOutput, RankedLabel
from servekit_onnx.graph import Graph
from servekit_onnx.options import Pooling, TextOptions
from servekit_onnx.runner import GraphRunner
from servekit_onnx.tokens import TextTokenizer

__all__ = ["TextAdapter", "TextRequest", "takes_texts"]

Vectors = np.ndarray[Any, Any]

IDS: Final = "input_ids"
MASK: Final = "attention_mask"
TYPES: Final = "token_type_ids"
PLACE: Final = "[options.text]"


#: graphs may take ids of 32 bits
TokenId = Annotated[int, Meta(ge=0, le=2**31 - 1)]


class TextRequest(Struct):
    """Text in an object, as clients of OpenAI send it for embeddings."""

    input: str | list[TokenId]


def counted_vector(size: int) -> type[Struct]:
    """Return the type of an answer: a vector of *size* numbers, and the number of tokens.

    servekit-openai, which reads such answers, has the same names.
    """
    fields = [("vector", Annotated[np.ndarray, Array("float32", [size])]), ("tokens", int)]
    return defstruct("CountedVector", fields)


def takes_texts(graph: Graph) -> bool:
    """Whether *graph* takes token ids, and nothing that a tokenizer does not give."""
    names = {tensor["name"] for tensor in graph.inputs}
    return IDS in names and names <= {IDS, MASK, TYPES} and all(map(_is_sequence, graph.inputs))


def _is_sequence(tensor: Mapping[str, Any]) -> bool:
    return tensor["dtype"] in ("int64", "int32") and len(tensor["shape"]) == 1


class TextAdapter:
    """Makes ids of text, and vectors or labels of what the graph computes."""

    signature: Mapping[str, Any] | None = None
    input_type: Any = str | list[TokenId] | TextRequest
    output_type: Any
    task: str

    def __init__(
        self,
        runner: GraphRunner,
        options: TextOptions,
        tokenizer: TextTokenizer,
        output: ClassOutput | None,
    ) -> None:
        """Fit *options* to the graph of *runner*, and try it.

        :param output: ``None`` answers with vectors.
        :raises BootError: they do not go together.
        """
        self._runner, self._tokenizer, self._output = runner, tokenizer, output
        self._inputs = runner.graph.inputs
        self._normalizes = options.normalize
        arrays, _ = self._arrays(["a", "b c"])
        found = runner.try_run(arrays, PLACE)[0]
        if output is not None and options.pooling is not None:
            raise BootError(f"{PLACE} pooling: contradicts [options.output]; classes need none")
        if output is not None:
            output.settle(found)
            self.task, self.output_type = "", list[RankedLabel]
        else:
            self._pool = _pooling(options, np.ndim(found))
            self.task, self.output_type = "embedding", counted_vector(found.shape[-1])

    def warm_up(self) -> None:
        """Do nothing: the graph has been tried."""

    def answers(self, batch: Sequence[str | list[int] | TextRequest]) -> list[Any]:
        """Return the answer to each text."""
        texts = [each.input if isinstance(each, TextRequest) else each for each in batch]
        arrays, mask = self._arrays(texts)
        scores = self._runner.run(arrays)[0]
        if self._output is not None:
            return self._output.answers(scores)
        vectors = self._pool(np.asarray(scores, np.float32), mask)
        vectors = unit_length(vectors) if self._normalizes else vectors
        tokens = mask.sum(axis=1).tolist()
        return [
            {"vector": vector, "tokens": count}
            for vector, count in zip(vectors, tokens, strict=True)
        ]

    def singles(self, batch: Sequence[Any]) -> list[list[Any]]:
        """Return a batch for each text."""
        return [[text] for text in batch]

    def answer(self, single: Sequence[Any]) -> Any:
        """Return the answer to a batch of one."""
        return self.answers(single)[0]

    def _arrays(self, texts: Sequence[str | list[int]]) -> tuple[dict[str, Vectors], Vectors]:
        """Return the inputs of the graph, and the mask ``[n, tokens]``; both are 0 at padding."""
        tokens = self._tokenizer.tokens(texts)
        size = self._inputs[0]["shape"][0]
        shape = len(tokens), max(1, *(len(each.ids) for each in tokens)) if size == -1 else size
        found = {
            IDS: np.full(shape, self._tokenizer.padding, np.int64),
            MASK: np.zeros(shape, np.int64),
            TYPES: np.zeros(shape, np.int64),
        }
        for row, each in enumerate(tokens):
            found[IDS][row, : len(each.ids)] = each.ids
            found[MASK][row, : len(each.ids)] = 1
            found[TYPES][row, : len(each.ids)] = each.type_ids
        named = {each["name"]: found[each["name"]].astype(each["dtype"]) for each in self._inputs}
        return named, found[MASK]


# ------------------------------------------------------------ pooling; masks are [n, tokens]

Pool = Callable[[Vectors, Vectors], Vectors]


def _mean(vectors: Vectors, mask: Vectors) -> Vectors:
    weights = mask[:, :, np.newaxis].astype(np.float32)
    mean: Vectors = (vectors * weights).sum(axis=1) / np.maximum(weights.sum(axis=1), 1)
    return mean


def _first(vectors: Vectors, _mask: Vectors) -> Vectors:
    return vectors[:, 0]


def _largest(vectors: Vectors, mask: Vectors) -> Vectors:
    largest: Vectors = np.where(mask[:, :, np.newaxis], vectors, -np.inf).max(axis=1)
    return np.where(mask.any(axis=1, keepdims=True), largest, 0)


POOLINGS: Final[Mapping[Pooling, Pool]] = {"mean": _mean, "cls": _first, "max": _largest}


def _pooling(options: TextOptions, axes: int) -> Pool:
    """Return what makes one vector for each text of an output of *axes* axes.

    :raises BootError: the option contradicts the output.
    """
    if axes == 3:
        return POOLINGS[options.pooling or "mean"]
    if axes != 2:
        raise BootError(f"{PLACE}: the output has {axes} axes, not 2 or 3")
    if options.pooling is not None:
        raise BootError(f"{PLACE} pooling: the output has one vector for each text already")
    return lambda vectors, _mask: vectors


def unit_length(vectors: Vectors) -> Vectors:
    """Return *vectors* scaled to length 1; zeros stay zeros."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    scaled: Vectors = vectors / np.maximum(lengths, np.finfo(np.float32).tiny)
    return scaled
