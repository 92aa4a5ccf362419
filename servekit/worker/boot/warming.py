# SPDX-License-Identifier: Apache-2.0
"""Batches of several sizes, made of the examples or of zeros: warm-up, and ``servekit check``."""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from servekit_archiver import Manifest

from servekit.errors import BootError
from servekit.service.base import Service
from servekit.worker.boot.examples import example_item, problem_of
from servekit.worker.prediction.current_batch import OpenItem
from servekit.worker.prediction.predictor import Predictor

__all__ = ["batch_of", "batch_problem", "run_batches", "samples_of"]

MSGPACK = b"application/msgpack"


def run_batches(sizes: Iterable[int], samples: Sequence[OpenItem], predictor: Predictor) -> None:
    """Predict one batch of each size, for services that compile for every size they meet.

    :raises BootError: there is nothing to make a batch of, or an input of it fails.
    """
    for size in sizes:
        if not samples:
            raise BootError("warm_up.batch_sizes: needs an example, or a signature, for inputs")
        if problem := batch_problem(predictor, batch_of(samples, size)):
            raise BootError(f"warm_up: batch of {size}: {problem}")


def batch_of(samples: Sequence[OpenItem], size: int) -> list[OpenItem]:
    """Return *size* requests: the samples, over and over."""
    return list(islice(cycle(samples), size))


def batch_problem(predictor: Predictor, batch: Sequence[OpenItem]) -> str:
    """Predict *batch* and return what went wrong with its first failing input, or ""."""
    return next(filter(None, map(problem_of, predictor.answer(batch).answers)), "")


def samples_of(manifest: Manifest, directory: Path, service: Service) -> list[OpenItem]:
    """Return requests that *service*, which is loaded, takes: the examples, or zeros.

    None where there is no example and no signature, or a ``preprocess`` takes what only its
    author knows.
    """
    if manifest.examples:
        numbered = enumerate(manifest.examples, 1)
        return [example_item(example, directory, number) for number, example in numbered]
    is_raw = type(service).preprocess is not Service.preprocess
    if is_raw or service.signature is None:
        return []
    return [(_zeros(service.signature), MSGPACK, b"", "sample", math.inf)]


def _zeros(signature: Mapping[str, Any]) -> bytes:
    """Return a body of one input: zeros and empty texts, 1 along every open axis."""
    from servekit.worker.codecs.msgpack import codec

    return codec.encode({entry["name"]: _zero(entry) for entry in signature["inputs"]})


def _zero(entry: Mapping[str, Any]) -> Any:
    import numpy as np

    shape = [size if size != -1 else 1 for size in entry["shape"]]
    if entry["dtype"] == "str":
        return np.full(shape, "", object).tolist()
    return np.zeros(shape, entry["dtype"])
