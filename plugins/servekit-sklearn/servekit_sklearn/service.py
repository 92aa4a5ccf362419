# SPDX-License-Identifier: Apache-2.0
"""The service ``sklearn``: one estimator from a joblib, pickle or skops file."""

import warnings
from typing import Any

import numpy as np

from servekit import Context, InputError, Service
from servekit_sklearn.columns import choose_join
from servekit_sklearn.hooks import SUFFIXES
from servekit_sklearn.methods import choose_methods, run_methods
from servekit_sklearn.options import SklearnOptions
from servekit_sklearn.reading import check_estimator, read_model
from servekit_sklearn.signature import example_batch, inputs_of, outputs_of

__all__ = ["SklearnService"]


class SklearnService(Service):
    """Answers with the outputs that ``[options] method`` selects."""

    def load(self, context: Context) -> None:
        """Read the estimator and learn from it what it takes and gives."""
        options = context.read_options(SklearnOptions)
        path = context.find_file(*SUFFIXES, file=options.file)
        model = read_model(path, options.trusted, context.logger)
        check_estimator(model, path)
        _limit_jobs(model, context.threads)
        self._logger = context.logger
        self._answer = run_methods(model, choose_methods(model, options.method))
        if self.signature is None and (inputs := inputs_of(model)):
            self.signature = {"inputs": inputs, "outputs": []}
        self._join = choose_join(model, self.signature)
        # the names were checked by choose_join; without pandas the columns arrive as an array
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        # errors of an estimator that cannot use an input: types are checked, values are not
        self._refusals = (
            (ValueError,) if self.signature else (AttributeError, TypeError, ValueError)
        )
        self._learn_outputs()

    def _learn_outputs(self) -> None:
        """Answer one example to see the outputs; a model that refuses zeros keeps them unknown."""
        if self.signature is None or self.signature.get("outputs"):
            return
        try:
            outputs = self._answer(self._join(example_batch(self.signature["inputs"])))
        except (TypeError, ValueError) as error:
            self._logger.info("outputs are not described: %s", error)
        else:
            self.signature = {**self.signature, "outputs": outputs_of(outputs)}

    def predict(self, batch: Any) -> Any:
        """Answer all at once; if the estimator refuses, find the inputs it refuses."""
        rows = self._join(batch)
        try:
            return self._shape(self._answer(rows))
        except self._refusals:
            self._logger.warning("refused a batch of %d", len(rows), exc_info=True)
        return [self._answer_one(rows[i : i + 1]) for i in range(len(rows))]

    def _answer_one(self, row: Any) -> Any:
        try:
            return self._items(self._answer(row))[0]
        except self._refusals as error:
            return InputError(f"the model refuses this input ({type(error).__name__})")

    def _shape(self, outputs: dict[str, np.ndarray]) -> Any:
        """One output goes bare; several go as the signature wants them, else item by item."""
        if len(outputs) == 1:
            return next(iter(outputs.values()))
        return outputs if self.signature is not None else self._items(outputs)

    @staticmethod
    def _items(outputs: dict[str, np.ndarray]) -> list[Any]:
        if len(outputs) == 1:
            return list(*outputs.values())
        return [dict(zip(outputs, row, strict=True)) for row in zip(*outputs.values(), strict=True)]


def _limit_jobs(model: Any, threads: int) -> None:
    """Let nested estimators use this worker's threads, not every core of the machine."""
    jobs = {
        name: threads
        for name, value in model.get_params().items()
        if name.endswith("n_jobs") and value not in (None, 1)
    }
    if jobs:
        model.set_params(**jobs)
