# SPDX-License-Identifier: Apache-2.0
"""The service ``torch``: one model, run by PyTorch."""

from pathlib import Path
from typing import Any, Final

import torch

from servekit import Context, InputError, Service
from servekit.errors import BootError
from servekit_torch.answers import AnswerMaker, answers_for, refuse_contradictions
from servekit_torch.failures import REFUSALS, raise_unless_refusal
from servekit_torch.hooks import SUFFIXES, is_program, is_script
from servekit_torch.opened import TorchModel
from servekit_torch.options import TorchOptions
from servekit_torch.placing import choose_device, compile_module, float_dtype, place
from servekit_torch.running import Batch, ModelRunner, rows_of
from servekit_torch.runs import RunSizes
from servekit_torch.signature import describe_outputs, example_batch, merge_signature, picture_input
from servekit_torch.weights import one_line, return_memory

__all__ = ["TorchService"]

WARM_RUNS: Final = 3  #: TorchScript watches one run, and optimises the next


class TorchService(Service):
    """AnswerMaker with the outputs of the model, by their names, or with labels of pictures."""

    def load(self, context: Context) -> None:
        """Open the model, bring it to its device, and learn from it what it takes and gives."""
        options, declared = context.read_options(TorchOptions), self.signature
        refuse_contradictions(options, declared)
        torch.set_num_threads(context.threads)
        self._logger, self._options = context.logger, options
        self._most = context.max_batch_size
        path = context.find_file(*SUFFIXES, file=options.file)
        opened = self._open(path, options)
        known = opened.inputs
        if known is None and declared is None and options.image is not None:
            known = [picture_input(options.image)]
        signature = merge_signature(declared, known, opened.outputs)
        self._inputs = signature["inputs"]
        self._runner = self._runner_of(opened, options, context.threads)
        return_memory()
        self._answers: AnswerMaker = answers_for(
            *(options, self._with_outputs(signature), self._runner.run_all, context),
            is_declared=declared is not None,
        )
        self.signature = self._answers.signature
        self.input_type, self.output_type = self._answers.input_type, self._answers.output_type

    def _open(self, path: Path, options: TorchOptions) -> TorchModel:
        if path.suffix != ".safetensors" and is_program(path):
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
        names = [each["name"] for each in self._inputs]
        casts = opened.casts
        if casts is None:
            dtype = float_dtype(module)
            floats = [each["name"] for each in self._inputs if each["dtype"] == "float32"]
            casts = dict.fromkeys(floats, dtype) if dtype is not None else {}
        return ModelRunner(
            compile_module(opened, module, options, threads),
            opened.arrange(names),
            RunSizes.of(options.sizes, opened.smallest, opened.largest),
            device,
            casts=casts,
            names=options.outputs,
            batched=options.batched,
            channels_last=options.channels_last,
            logger=self._logger,
        )

    def _with_outputs(self, signature: dict[str, Any]) -> dict[str, Any]:
        """Run zeros to see the outputs; a model that refuses them keeps its outputs unknown."""
        batch = example_batch(self._inputs, 1)
        if signature["outputs"] or batch is None:
            return signature
        try:
            return signature | {"outputs": describe_outputs(self._runner.run_all(batch))}
        except REFUSALS as error:
            self._logger.info("outputs are not described: %s", error)
        return signature

    def warm_up(self) -> None:
        """Run zeros of every size that is compiled for; without sizes, what compiles for all."""
        several = (2, self._most) if self._options.compile and self._options.batched else ()
        for size in sorted({*(self._options.sizes or (1, *several))}):
            batch = example_batch(self._inputs, size)
            if batch is None:
                self._logger.info("not warmed up: the model takes inputs of any size")
                return
            self._warm_up(batch)

    def _warm_up(self, batch: Batch) -> None:
        try:
            for _ in range(WARM_RUNS):
                self._runner.run_all(batch)
        except REFUSALS as error:
            raise_unless_refusal(error)
            if self._options.compile:
                raise BootError(f"[options] compile: {one_line(error)}") from error
            self._logger.info("not warmed up: the model refuses zeros (%s)", one_line(error))

    def predict(self, batch: Any) -> Any:
        """Run the whole batch; if the model refuses, find the inputs that it refuses."""
        arrays = self._answers.arrays(batch)
        count = len(next(iter(arrays.values())))
        if self._options.batched:
            try:
                return self._answers.all_of(self._runner.run_all(arrays))
            except REFUSALS as error:
                raise_unless_refusal(error)
                if count == 1:
                    return [self._refused(error)]
                self._logger.warning("refused a batch of %d", count, exc_info=True)
        return [self._answer_one(rows_of(arrays, [place])) for place in range(count)]

    def _answer_one(self, arrays: Batch) -> Any:
        try:
            return self._answers.first_of(self._runner.run_all(arrays))
        except REFUSALS as error:
            raise_unless_refusal(error)
            return self._refused(error)

    def _refused(self, error: Exception) -> InputError:
        self._logger.warning("refused an input: %s", one_line(error))
        return InputError(f"the model refuses this input ({type(error).__name__})")
