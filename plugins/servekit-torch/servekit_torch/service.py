# SPDX-License-Identifier: Apache-2.0
"""The service ``torch``: one model, run by PyTorch."""

from pathlib import Path
from typing import Any, Final

import torch

from servekit import Context, InputError, Service
from servekit.errors import BootError
from servekit_torch.failures import REFUSALS, raise_unless_refusal
from servekit_torch.hooks import SUFFIXES, is_script
from servekit_torch.opened import TorchModel
from servekit_torch.options import TorchOptions
from servekit_torch.placing import choose_device, compile_module, float_dtype, place
from servekit_torch.running import Arrays, Batch, ModelRunner, rows_of
from servekit_torch.runs import RunSizes
from servekit_torch.signature import describe_outputs, example_batch, merge_signature
from servekit_torch.weights import one_line, return_memory

__all__ = ["TorchService"]

WARM_RUNS: Final = 3  #: TorchScript watches one run, and optimises the next


class TorchService(Service):
    """Answers with the outputs of the model, by their names."""

    def load(self, context: Context) -> None:
        """Open the model, bring it to its device, and learn from it what it takes and gives."""
        options = context.read_options(TorchOptions)
        torch.set_num_threads(context.threads)
        self._logger, self._options = context.logger, options
        self._most = context.max_batch_size
        path = context.find_file(*SUFFIXES, file=options.file)
        opened = self._open(path, options)
        self.signature = merge_signature(self.signature, opened.inputs, opened.outputs)
        self._runner = self._runner_of(opened, options, context.threads)
        return_memory()
        self._learn_outputs()

    def _open(self, path: Path, options: TorchOptions) -> TorchModel:
        if path.suffix == ".pt2":
            from servekit_torch.programs import open_program  # slow to import

            return open_program(path, options.outputs, batched=options.batched)
        if path.suffix != ".safetensors" and is_script(path):
            from servekit_torch.scripts import open_script

            is_declared = self.signature is not None
            return open_script(path, batched=options.batched, is_declared=is_declared)
        from servekit_torch.modules import open_module

        if not options.class_:
            raise BootError(
                f"{path.name}: has weights only; name their nn.Module in [options] class"
            )
        return open_module(path, options.class_, options.arguments)

    def _runner_of(self, opened: TorchModel, options: TorchOptions, threads: int) -> ModelRunner:
        device = choose_device(options.device)
        module = place(opened, options, device)
        inputs = (self.signature or {})["inputs"]
        names = [each["name"] for each in inputs]
        casts = opened.casts
        if casts is None:
            dtype = float_dtype(module)
            floats = [each["name"] for each in inputs if each["dtype"] == "float32"]
            casts = dict.fromkeys(floats, dtype) if dtype is not None else {}
        return ModelRunner(
            compile_module(opened, module, options, threads),
            opened.arrange(names),
            RunSizes.of(options.sizes, opened.smallest, opened.largest),
            device,
            casts=casts,
            names=options.outputs,
            channels_last=options.channels_last,
            logger=self._logger,
        )

    def _learn_outputs(self) -> None:
        """Run zeros to see the outputs; a model that refuses them keeps its outputs unknown."""
        signature = dict(self.signature or {})
        batch = example_batch(signature["inputs"], 1)
        if signature["outputs"] or batch is None:
            return
        try:
            outputs, first = self._outputs(batch)
        except REFUSALS as error:
            self._logger.info("outputs are not described: %s", error)
        else:
            self.signature = signature | {"outputs": describe_outputs(outputs, first)}

    def _outputs(self, batch: Batch) -> tuple[Arrays, int]:
        """Return the outputs of *batch* by name, and how many of their axes are the batch."""
        if self._options.batched:
            return self._runner.run_batch(batch), 1
        return self._runner.run_item(batch, 0), 0

    def warm_up(self) -> None:
        """Run zeros of every size that is compiled for; without sizes, what compiles for all."""
        inputs = (self.signature or {})["inputs"]
        several = (2, self._most) if self._options.compile and self._options.batched else ()
        for size in sorted({*(self._options.sizes or (1, *several))}):
            batch = example_batch(inputs, size)
            if batch is None:
                self._logger.info("not warmed up: [signature] leaves a size open")
                return
            self._warm_up(batch)

    def _warm_up(self, batch: Batch) -> None:
        try:
            for _ in range(WARM_RUNS):
                self._outputs(batch)
        except REFUSALS as error:
            raise_unless_refusal(error)
            if self._options.compile:
                raise BootError(f"[options] compile: {one_line(error)}") from error
            self._logger.info("not warmed up: the model refuses zeros (%s)", one_line(error))

    def predict(self, batch: Batch) -> Any:
        """Run the whole batch; if the model refuses, find the inputs that it refuses."""
        count = len(next(iter(batch.values())))
        if self._options.batched:
            try:
                return _bare(self._runner.run_batch(batch))
            except REFUSALS as error:
                raise_unless_refusal(error)
                if count == 1:
                    return [self._refused(error)]
                self._logger.warning("refused a batch of %d", count, exc_info=True)
        return [self._answer_one(batch, place) for place in range(count)]

    def _answer_one(self, batch: Batch, place: int) -> Any:
        try:
            if not self._options.batched:
                return _bare(self._runner.run_item(batch, place))
            outputs = self._runner.run_batch(rows_of(batch, [place]))
        except REFUSALS as error:
            raise_unless_refusal(error)
            return self._refused(error)
        return _bare({name: rows[0] for name, rows in outputs.items()})

    def _refused(self, error: Exception) -> InputError:
        self._logger.warning("refused an input: %s", one_line(error))
        return InputError(f"the model refuses this input ({type(error).__name__})")


def _bare(outputs: Arrays) -> Any:
    """Return a single output without its name."""
    return next(iter(outputs.values())) if len(outputs) == 1 else outputs
