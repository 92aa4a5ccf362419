# SPDX-License-Identifier: Apache-2.0
"""The base classes that service files of MMS 0.x import, without MXNet.

A class that brings its own ``_inference`` runs unchanged. One that leaves it to a base class needs
MXNet, and is refused before its model is loaded; see ``needs_mxnet``.
"""

from __future__ import annotations

import json
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = [
    "BASES",
    "GluonImperativeBaseService",
    "GluonVisionService",
    "MXNetBaseService",
    "MXNetVisionService",
    "ModelService",
    "MultiNodesService",
    "SingleNodeService",
    "check_input_shape",
    "needs_mxnet",
]

TOP: Final = 5  #: classes in the answer of a vision service


def _ignore(_phase: str, _seconds: float) -> None:
    """Stand for a server that measures the phases."""


class ModelService:
    """A model, as a server of MMS uses it."""

    ctx: Any = None
    _signature: Mapping[str, Any]

    def __init__(
        self, model_name: str, model_dir: str, manifest: Mapping[str, Any], gpu: int | None = None
    ) -> None:
        """Keep the name of the manifest, and the GPU as ``ctx``."""
        self.model_name, self.model_dir, self.manifest = model_name, model_dir, manifest
        self.ctx = "cpu" if gpu is None else f"gpu({gpu})"

    def inference(self, data: Any) -> Any:
        """Return the prediction for the inputs of one request, in the order of the signature."""
        raise NotImplementedError(f"{type(self).__name__} has no inference()")

    def ping(self) -> Any:
        """Raise an exception if the service no longer works."""

    @property
    def signature(self) -> Mapping[str, Any]:
        """``signature.json``."""
        return self._signature


class SingleNodeService(ModelService):
    """A service in three steps; the first and the last return what they get."""

    #: called with a step and its duration; the server sets it
    observe: Callable[[str, float], None] = staticmethod(_ignore)

    def inference(self, data: Any) -> Any:
        """Return what the three steps make of *data*, one after the other."""
        steps = {
            "preprocess": self._preprocess,
            "inference": self._inference,
            "postprocess": self._postprocess,
        }
        for name, step in steps.items():
            started = monotonic()
            data = step(data)
            self.observe(name, monotonic() - started)
        return data

    def _preprocess(self, data: Any) -> Any:
        return data

    def _inference(self, data: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no _inference()")

    def _postprocess(self, data: Any) -> Any:
        return data


class MultiNodesService(ModelService):
    """A name that MMS has without content."""


class MXNetBaseService(SingleNodeService):
    """Signature and labels of an archive; predicting is left to a subclass."""

    def __init__(
        self, model_name: str, model_dir: str, manifest: Mapping[str, Any], gpu: int | None = None
    ) -> None:
        """Read ``signature.json``, and ``synset.txt`` if there is one."""
        super().__init__(model_name, model_dir, manifest, gpu)
        self.param_filename = manifest["Model"].get("Parameters") or None
        text = (Path(model_dir) / manifest["Model"]["Signature"]).read_text("utf-8")
        self._signature = json.loads(text)
        labels = Path(model_dir) / "synset.txt"
        if labels.is_file():
            self.labels = [line.strip() for line in labels.read_text("utf-8").splitlines()]

    def _preprocess(self, data: Any) -> Any:
        from servekit_mms.images import as_array  # imports NumPy and Pillow, as do the others

        return [as_array(each) for each in data]

    def _inference(self, data: Any) -> NoReturn:
        raise NotImplementedError(f"{type(self).__name__} leaves inference to MXNet")

    def _postprocess(self, data: Any) -> Any:
        from servekit_mms.images import as_array

        return [str(as_array(each).tolist()) for each in data]


class MXNetVisionService(MXNetBaseService):
    """Resizes images to the shapes of the signature, and answers with the most likely labels."""

    def _preprocess(self, data: Any) -> Any:
        from servekit_mms import images

        made = []
        for tensor, content in zip(self.signature["inputs"], data, strict=False):
            height, width = tensor["data_shape"][2:]
            made.append(images.transform_shape(images.resize(images.read(content), width, height)))
        return made

    def _postprocess(self, data: Any) -> Any:
        if not hasattr(self, "labels"):
            raise AttributeError("labels: there is no synset.txt in the archive; set them in load")
        from servekit_mms.scores import top_probability

        return [top_probability(each, self.labels, top=TOP) for each in data]


class GluonImperativeBaseService(MXNetBaseService):
    """The base of services that build a network themselves."""

    def __init__(
        self,
        model_name: str,
        model_dir: str,
        manifest: Mapping[str, Any],
        net: Any = None,
        gpu: int | None = None,
    ) -> None:
        """Keep *net*, whose weights the subclass has loaded."""
        super().__init__(model_name, model_dir, manifest, gpu)
        self.net = net

    def _preprocess(self, data: Any) -> Any:
        return data

    def _postprocess(self, data: Any) -> Any:
        return data


class GluonVisionService(MXNetVisionService, GluonImperativeBaseService):
    """The same for images."""


BASES: Final = (
    *(ModelService, SingleNodeService, MultiNodesService, MXNetBaseService, MXNetVisionService),
    *(GluonImperativeBaseService, GluonVisionService),
)


def needs_mxnet(kind: type[ModelService]) -> bool:
    """Whether *kind* leaves inference to MXNet."""
    if kind.inference is not SingleNodeService.inference:
        return False
    return next(each for each in kind.__mro__ if "_inference" in vars(each)) is MXNetBaseService


def check_input_shape(inputs: Sequence[Any], signature: Mapping[str, Any]) -> None:
    """Refuse arrays that do not have the shapes of *signature*, where 0 is any size.

    :raises AssertionError: says which.
    """
    declared = signature["inputs"]
    assert isinstance(inputs, list), "Input data must be a list."
    assert len(inputs) == len(declared), (
        f"Input number mismatches with signature. {len(declared)} expected but got {len(inputs)}."
    )
    for array, tensor in zip(inputs, declared, strict=True):
        name, shape = tensor["data_name"], tensor["data_shape"]
        assert len(array.shape) == len(shape), (
            f"Shape dimension of input {name} mismatches with signature. "
            f"{len(shape)} expected but got {len(array.shape)}."
        )
        sizes = zip(array.shape[1:], shape[1:], strict=True)
        assert all(wanted in (0, size) for size, wanted in sizes), (
            f"Input {name} has different shape with signature. "
            f"{shape} expected but got {array.shape}."
        )
