# SPDX-License-Identifier: Apache-2.0
"""Proves that a loaded service answers: its examples, and batches of several sizes."""

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import msgspec
from servekit_archiver import Manifest
from servekit_archiver.manifest import Example

from servekit.checkup.comparison import TOLERANCE, difference
from servekit.errors import BootError, RequestError
from servekit.ipc.batches import Item
from servekit.service.base import Service
from servekit.types.arrays import with_batch_axis
from servekit.types.file_types import media_type_of
from servekit.worker.boot.loading import Loading, named_stage
from servekit.worker.prediction.batch_result import Answered
from servekit.worker.prediction.current_batch import OpenItem
from servekit.worker.prediction.objects import OBJECT, DecodedInput
from servekit.worker.prediction.predictor import Predictor
from servekit.worker.serving.loaded import Loaded

__all__ = [
    "batch_of",
    "batch_problem",
    "example_item",
    "example_problem",
    "problem_of",
    "prove",
    "run_batches",
    "run_examples",
    "samples_of",
]

JSON = "application/json"
MSGPACK = b"application/msgpack"


def prove(loaded: Loaded, loading: Loading) -> None:
    """Run the examples of all services, and batches of the sizes in their manifests.

    :raises BootError: one fails.
    """
    manifest, predictor = loading.manifest, loaded.predictor
    with named_stage(loading.launch.stage if loading.launch.colocated else ""):
        run_examples(manifest.examples, loading.directory, predictor)
        if manifest.warm_up is not None:
            samples = samples_of(manifest, loading.directory, loaded.service, predictor)
            run_batches(manifest.warm_up.batch_sizes, samples, predictor)
    for name, each in loaded.colocated.items():
        with named_stage(name):
            prove(each, loading.of_stage(name))


# ------------------------------------------------------------ examples


def run_examples(examples: Iterable[Example], directory: Path, predictor: Predictor) -> None:
    """Predict every example alone, and compare the output if one is expected.

    :raises BootError: one is refused, or its output differs.
    """
    for number, example in enumerate(examples, 1):
        answer = predictor.answer([example_item(example, directory, number)]).answers[0]
        if problem := example_problem(example, answer):
            raise BootError(f"example {number}: {problem}")


def example_item(example: Example, directory: Path, number: int) -> OpenItem:
    """Return *example* as the request that a worker would get."""
    if example.input_file is None:
        body, content_type = msgspec.json.encode(example.input), JSON
    else:
        path = directory / example.input_file
        body, content_type = path.read_bytes(), example.content_type or media_type_of(path.name)
    accept = JSON.encode() if example.output is not None else b""
    return Item(body, content_type.encode(), accept, f"example-{number}", math.inf)


def example_problem(example: Example, answer: Answered) -> str:
    """Return how *answer* differs from what *example* expects; "" if it does not."""
    if problem := problem_of(answer):
        return problem
    if example.output is None:
        return ""
    found = msgspec.json.decode(answer[2])["prediction"]
    tolerance = TOLERANCE if example.tolerance is None else example.tolerance
    wrong = difference(found, example.output, tolerance)
    return f"output{wrong}" if wrong else ""


def problem_of(answer: Answered) -> str:
    """Return the error in *answer*; "" if there is none."""
    error, _, body = answer
    return f"{error}: {msgspec.json.decode(body)['detail'] or 'see the log above'}" if error else ""


# ------------------------------------------------------------ batches


def run_batches(sizes: Iterable[int], samples: Sequence[OpenItem], predictor: Predictor) -> None:
    """Predict one batch of each size, for services that compile code for every new size.

    :raises BootError: there are no samples, or an input fails.
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
    """Predict *batch* and return the error of the first input that fails, or ""."""
    return next(filter(None, map(problem_of, predictor.answer(batch).answers)), "")


def samples_of(
    manifest: Manifest, directory: Path, service: Service, predictor: Predictor
) -> list[OpenItem]:
    """Return requests that the loaded *service* takes: the examples, or zeros by its signature.

    Empty if there is neither, or a ``preprocess`` that takes other inputs. If requests have rows,
    there is one of each row.
    """
    samples = _requests(manifest, directory, service)
    return _rows(samples, predictor) if manifest.rows else samples


def _rows(samples: Iterable[OpenItem], predictor: Predictor) -> list[OpenItem]:
    from servekit.worker.inputs.row_input import cut

    found: list[OpenItem] = []
    for item in samples:
        with suppress(RequestError):  # an example that is refused has been reported
            rows = cut(predictor.read(item.content_type, item.body, 0))
            bodies = [DecodedInput(each, b"") for each in rows]
            found += [Item(each, OBJECT, OBJECT, "sample", math.inf) for each in bodies]
    return found


def _requests(manifest: Manifest, directory: Path, service: Service) -> list[OpenItem]:
    if manifest.examples:
        numbered = enumerate(manifest.examples, 1)
        return [example_item(example, directory, number) for number, example in numbered]
    is_raw = type(service).preprocess is not Service.preprocess
    if is_raw or service.signature is None:
        return []
    from servekit.worker.codecs.msgpack import codec

    inputs = service.signature["inputs"]
    sent = with_batch_axis({"inputs": inputs})["inputs"] if manifest.rows else inputs
    zeros = codec.encode({entry["name"]: _zero(entry) for entry in sent})
    return [Item(zeros, MSGPACK, b"", "sample", math.inf)]


def _zero(entry: Mapping[str, Any]) -> Any:
    """Return zeros or empty strings, of size 1 along every open axis."""
    import numpy as np

    from servekit.worker.inputs.array_checks import element_dtype

    shape = [size if size != -1 else 1 for size in entry["shape"]]
    if entry["dtype"] == "str":
        return np.full(shape, "", object).tolist()
    return np.zeros(shape, element_dtype(entry["dtype"]))
