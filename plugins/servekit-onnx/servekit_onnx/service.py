# SPDX-License-Identifier: Apache-2.0
"""The service ``onnx``: one graph, run by onnxruntime."""

from typing import Any

from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument

from servekit import Context, InputError, Service
from servekit_onnx.adapters import Adapter, adapter_for
from servekit_onnx.graph import read_graph
from servekit_onnx.options import OnnxOptions
from servekit_onnx.runner import GraphRunner
from servekit_onnx.session import open_session

__all__ = ["OnnxService"]


class OnnxService(Service):
    """Answers with the outputs of the graph by their names, or what an adapter makes of them."""

    def load(self, context: Context) -> None:
        """Open the graph and learn from it what it takes and gives."""
        options = context.read_options(OnnxOptions)
        path = context.find_file(".onnx", file=options.file)
        session = open_session(path, options, threads=context.threads, replicas=context.replicas)
        graph = read_graph(session, options.outputs, batched=options.batched)
        runner = GraphRunner(session, graph, batched=options.batched)
        self._adapter: Adapter = adapter_for(options, runner, context, self.signature)
        self._logger = context.logger
        self.signature, self.task = self._adapter.signature, self._adapter.task
        self.input_type, self.output_type = self._adapter.input_type, self._adapter.output_type

    def warm_up(self) -> None:
        """Run the graph once, if it says with what."""
        self._adapter.warm_up()

    def predict(self, batch: Any) -> Any:
        """Run the whole batch; if the graph refuses, find the inputs it refuses."""
        try:
            return self._adapter.answers(batch)
        except InvalidArgument:
            singles = self._adapter.singles(batch)
            self._logger.warning("refused a batch of %d", len(singles), exc_info=True)
        return [self._answer_one(each) for each in singles]

    def _answer_one(self, single: Any) -> Any:
        try:
            return self._adapter.answer(single)
        except InvalidArgument:
            return InputError("the graph refuses this input")
