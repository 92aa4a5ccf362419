# SPDX-License-Identifier: Apache-2.0
"""``/v1/embeddings``: strings or token ids in, vectors out."""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct, convert

from servekit.extension import EncodedResponse
from servekit_openai.envelopes.api import JSON, Api, converted
from servekit_openai.envelopes.choices import estimate_tokens
from servekit_openai.envelopes.prompts import prompts_in
from servekit_openai.errors import refusal
from servekit_openai.inputs import EmbeddingsBody
from servekit_openai.outputs import Embedding
from servekit_openai.tasks import EMBEDDING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from servekit.extension import EnvelopeRequest

    Vector = NDArray[np.float32]

__all__ = ["Embeddings"]

FORMATS = ("float", "base64")


class VectorFormat(Struct):
    """How the client wants the vectors. It may go from one worker to another."""

    tokens: list[int]  #: estimated for each input
    encoding: str
    dimensions: int | None


class Embeddings(Api):
    """Makes an ``EmbeddingInput`` of each input."""

    task = EMBEDDING

    def read(self, request: EnvelopeRequest) -> Sequence[Any]:
        """Return the inputs."""
        body = self.read_object(request)
        asked = converted(body, EmbeddingsBody)
        encoding = asked.encoding_format or "float"
        if encoding not in FORMATS:
            raise refusal("encoding_format", "expected float or base64")
        encoding = request.parameters.get("encoding", encoding)
        inputs = prompts_in(body, "input")
        tokens = [estimate_tokens(each) if isinstance(each, str) else len(each) for each in inputs]
        request.state = VectorFormat(tokens, encoding, asked.dimensions)
        return [{**body, "input": each} for each in inputs]

    def write(self, request: EnvelopeRequest, outputs: Sequence[Any]) -> EncodedResponse:
        """Return the vectors, in the format that the client wants."""
        wanted = convert(request.state, VectorFormat)
        found = [embedding_of(*pair) for pair in zip(outputs, wanted.tokens, strict=True)]
        vectors = [resized(each.vector, wanted.dimensions) for each in found]
        values: list[Any] = vectors if wanted.encoding == "float" else [*map(as_base64, vectors)]
        data = [
            {"object": "embedding", "index": index, "embedding": value}
            for index, value in enumerate(values)
        ]
        prompt_tokens = sum(each.tokens for each in found)
        usage = {"prompt_tokens": prompt_tokens, "total_tokens": prompt_tokens}
        body = {"object": "list", "data": data, "model": self.model.name, "usage": usage}
        return EncodedResponse(body=self.codecs.write(JSON, body))


def embedding_of(output: Any, tokens: int) -> Embedding:
    """Return an *output* of a service, or of another worker, with its number of tokens.

    :param tokens: if the service has not counted them.
    """
    if isinstance(output, Embedding):
        return output
    if isinstance(output, dict):
        return Embedding(output["vector"], output["tokens"])
    return Embedding(output, tokens)


def resized(values: Any, dimensions: int | None) -> Vector:
    """Return *values* as one vector of *dimensions*, of length 1 if it had to be cut.

    :raises InputError: the model makes shorter ones.
    :raises ValueError: it is not a vector.
    """
    vector: Vector = np.asarray(values, np.float32)
    if vector.ndim != 1:
        raise ValueError(f"an embedding has {vector.ndim} axes, expected 1")
    if dimensions is None or dimensions == len(vector):
        return vector
    if dimensions > len(vector):
        raise refusal("dimensions", f"this model has {len(vector)}")
    cut = vector[:dimensions]
    norm = float(np.linalg.norm(cut))
    return cut / np.float32(norm) if norm else cut


def as_base64(vector: Vector) -> str:
    """Return the little-endian bytes of *vector* as base64."""
    return b64encode(vector.astype("<f4", copy=False).tobytes()).decode()
