# SPDX-License-Identifier: Apache-2.0
"""``BaseHandler``: loads a model of torch or ONNX, and predicts in three steps. Runs in: worker.

torch is imported when a model is loaded, not with this module.
"""

from __future__ import annotations

import inspect
import logging
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from servekit_archiver import file_in

from servekit_torchserve.builtin.labels import LABELS_FILE, load_label_mapping
from servekit_torchserve.entry import import_file

if TYPE_CHECKING:
    from servekit_torchserve.context import HandlerContext

__all__ = ["BaseHandler"]

logger = logging.getLogger(__name__)
ASKED: Final = "True"  #: value of the headers ``explain`` and ``describe``


class BaseHandler:
    """Subclass it and override ``preprocess``, ``inference`` or ``postprocess``."""

    def __init__(self) -> None:
        """Begin without a model."""
        self.model: Any = None
        self.mapping: dict[str, str] | None = None  #: names of classes by number
        self.device: Any = None  #: a ``torch.device``
        self.initialized = False
        self.context: HandlerContext | None = None
        self.manifest: dict[str, Any] = {}
        self.model_pt_path: str | None = None
        self.map_location: str | None = None  #: ``cuda`` or ``cpu``
        self.explain = False
        self.target = 0

    # ------------------------------------------------------------ loading

    def initialize(self, context: HandlerContext) -> None:
        """Load the model that the archive names, and the names of its classes.

        :raises RuntimeError: the archive has no model of a known format.
        """
        directory = Path(context.system_properties["model_dir"])
        self.context, self.manifest = context, context.manifest
        self._choose_device(context.system_properties.get("gpu_id"))
        names = self.manifest.get("model", {})
        serialized, model_file = names.get("serializedFile"), names.get("modelFile")
        if serialized:
            self.model_pt_path = str(file_in(directory, serialized, "serializedFile"))
        if model_file:
            self.model = self._load_pickled_model(str(directory), model_file, self.model_pt_path)
        elif self.model_pt_path:
            self.model = self._load_serialized(self.model_pt_path)
        else:
            raise RuntimeError("the archive has no serialized file and no model file")
        self._prepare_model(context.model_yaml_config)
        self.mapping = load_label_mapping(directory / LABELS_FILE)
        self.initialized = True

    def _choose_device(self, gpu: int | None) -> None:
        import torch

        has_gpu = torch.cuda.is_available() and gpu is not None
        self.map_location = "cuda" if has_gpu else "cpu"
        self.device = torch.device(f"cuda:{gpu}" if has_gpu else "cpu")

    def _load_serialized(self, path: str) -> Any:
        """Return the model in a file that holds its code, too."""
        import torch

        match Path(path).suffix:
            case ".pt" | ".pth":
                return self._load_torchscript_model(path)
            case ".pt2":
                return torch.export.load(path).module()
            case ".so":
                return torch._export.aot_load(path, self.map_location or "cpu")  # noqa: SLF001 - the only loader of such files
            case ".onnx":
                import onnxruntime

                return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        raise RuntimeError(f"{Path(path).name}: .pt, .pt2, .so or .onnx is needed without a class")

    def _load_torchscript_model(self, model_pt_path: str) -> Any:
        """Return a model of TorchScript."""
        import torch

        return torch.jit.load(model_pt_path, map_location=self.device)

    def _load_pickled_model(
        self, model_dir: str, model_file: str, model_pt_path: str | None
    ) -> Any:
        """Return an object of the only class in *model_file*, with the state in *model_pt_path*."""
        import torch

        name = model_file.rpartition("/")[2].removesuffix(".py")
        module = import_file(Path(model_dir), name)
        own = [
            each
            for each in vars(module).values()
            if inspect.isclass(each) and each.__module__ == module.__name__
        ]
        if len(own) != 1:
            raise ValueError(f"{model_file}: has {len(own)} classes, expected one")
        model: Any = own[0]()
        if model_pt_path:
            model.load_state_dict(torch.load(model_pt_path, map_location=self.map_location))
        return model

    def _prepare_model(self, config: dict[str, Any]) -> None:
        """Move the model to its device; compile it if ``model-config.yaml`` says so."""
        import torch

        if isinstance(self.model, torch.nn.Module):
            self.model.to(self.device)
            try:
                self.model.eval()
            except NotImplementedError:  # models of torch.export have one mode only
                logger.debug("the model has no eval()")
        wanted = config.get("pt2") or {}
        options = dict(wanted.get("compile", {})) if isinstance(wanted, dict) else {}
        if options.pop("enable", False):
            self.model = torch.compile(self.model, **options)

    # ------------------------------------------------------------ predicting

    def preprocess(self, data: Any) -> Any:
        """Return a tensor of the rows of a batch."""
        import torch

        return torch.as_tensor(data, device=self.device)

    def inference(self, data: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the outputs of the model."""
        import torch

        if hasattr(self.model, "get_inputs"):  # a session of onnxruntime
            name = self.model.get_inputs()[0].name
            return torch.as_tensor(self.model.run(None, {name: data.cpu().numpy()})[0])
        with torch.inference_mode():
            return self.model(data.to(self.device), *args, **kwargs)

    def postprocess(self, data: Any) -> list[Any]:
        """Return a list with an element for each request."""
        found: list[Any] = data.tolist()
        return found

    def handle(self, data: Any, context: HandlerContext) -> Any:
        """Answer a batch, and report how long it takes."""
        started = time.perf_counter()
        self.context = context
        if self._is_describe():
            output = [self.describe_handle()]
        elif self._is_explain():
            output = self.explain_handle(self.preprocess(data), data)
        else:
            output = self.postprocess(self.inference(self.preprocess(data)))
        elapsed_ms = (time.perf_counter() - started) * 1000
        context.metrics.add_time("HandlerTime", round(elapsed_ms, 2), None, "ms")
        return output

    # ------------------------------------------------------------ explanations and descriptions

    def explain_handle(self, data_preprocess: Any, raw_data: Any) -> list[Any]:
        """Return the explanation that ``get_insights`` makes for the first request."""
        row = raw_data[0]
        inputs, target = row, 0
        if isinstance(row, dict):
            inputs, target = row.get("data") or row.get("body"), row.get("target") or 0
        explanation = self.get_insights(data_preprocess, inputs, target)
        return explanation if isinstance(explanation, list) else [explanation]

    def get_insights(self, tensor_data: Any, raw_data: Any, target: Any) -> Any:
        """Explain a prediction; subclasses do."""
        raise NotImplementedError(f"{type(self).__name__} has no get_insights()")

    def describe_handle(self) -> Any:
        """Return what the model says of itself; subclasses may say more."""
        return {"handler": type(self).__name__, "python": sys.version.split()[0]}

    def _is_explain(self) -> bool:
        return self._is_asked("explain")

    def _is_describe(self) -> bool:
        return self._is_asked("describe")

    def _is_asked(self, name: str) -> bool:
        processors = self.context.request_processor if self.context is not None else []
        return bool(processors) and processors[0].get_request_property(name) == ASKED
