# SPDX-License-Identifier: Apache-2.0
"""The service ``mlflow``: one model in MLflow's format."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from servekit import Context, InputError, Response, Service, endpoint
from servekit.errors import BootError
from servekit_mlflow.envelope import Invocation
from servekit_mlflow.formats import NO_PARAMS
from servekit_mlflow.layout import layout_of
from servekit_mlflow.mlmodel import read_mlmodel
from servekit_mlflow.options import MLflowOptions
from servekit_mlflow.rows import PlainRows, RowReader, join
from servekit_mlflow.scoring import JSON, Scorer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    #: requests whose rows are predicted together, each with its place in the batch
    Group = Sequence[tuple[int, PlainRows]]

__all__ = ["MLflowService"]

PLAIN_JSON: Final = frozenset((JSON, f"{JSON};charset=utf-8"))
MESSAGE_CHARS: Final = 500  #: characters of an error that a client gets


class MLflowService(Service):
    """Answers rows, and whole requests as MLflow's scoring server does."""

    task = "mlflow"

    def load(self, context: Context) -> None:
        """Load the model, and learn from ``MLmodel`` what it takes and returns."""
        options = context.read_options(MLflowOptions)
        if self.signature is not None:
            raise BootError("[signature]: leave it out; MLmodel has one")
        model = read_mlmodel(context.directory)
        self._logger, self._most_rows = context.logger, context.max_batch_size
        self._layout = layout_of(model)
        self._scorer = Scorer(context.directory, self._layout, context.logger)
        self._joins = model.is_row_by_row if options.join is None else options.join
        is_plain = self._layout is not None and self._joins
        self._reader = RowReader(self._layout) if self._layout and is_plain else None
        self.signature = self._layout.signature if self._layout else None

    # ------------------------------------------------------------ one row for each request

    def predict(self, batch: Any) -> Any:
        """Predict rows: those of the signature, or values that become records of a data frame."""
        if self.signature is None:
            return [self._predict_value(value) for value in batch]
        count = len(next(iter(batch.values())))
        if self._joins and count > 1:
            try:
                return self._predict_rows(batch)
            except Exception:
                self._logger.warning("refused a batch of %d", count, exc_info=True)
        return [self._predict_row(batch, place) for place in range(count)]

    def _predict_rows(self, batch: Any) -> list[Any]:
        return self._scorer.predict(batch, NO_PARAMS).rows()

    def _predict_row(self, batch: Any, place: int) -> Any:
        try:
            row = {name: values[place : place + 1] for name, values in batch.items()}
            return self._predict_rows(row)[0]
        except Exception as error:
            self._logger.warning("refused an input", exc_info=True)
            return InputError(f"the model refuses this input ({type(error).__name__})")

    def _predict_value(self, value: Any) -> Any:
        body = {"dataframe_records" if isinstance(value, dict) else "inputs": [value]}
        response = self._scorer.respond(JSON, json.dumps(body))
        found = json.loads(response.output)
        if response.status != 200:
            return InputError(str(found.get("message", ""))[:MESSAGE_CHARS])
        rows = found["predictions"]
        return rows[0] if isinstance(rows, list) and len(rows) == 1 else rows

    # ------------------------------------------------------------ requests in MLflow's formats

    @endpoint()
    def invocations(self, batch: list[Any]) -> list[Any]:
        """Answer requests in the formats of MLflow's scoring server, which may hold many rows."""
        requests = [_request_of(value) for value in batch]
        answers: list[Response | None] = [None] * len(batch)
        for group in self._groups(requests):
            self._answer_together(group, answers)
        return [
            answers[place] or self._scorer.respond(*request)
            for place, request in enumerate(requests)
        ]

    def _groups(self, requests: Sequence[Invocation]) -> Iterator[Group]:
        """Yield the plain requests that can be joined, at most ``max_batch_size`` rows together."""
        groups: dict[Any, list[tuple[int, PlainRows]]] = {}
        for place, (content_type, body) in enumerate(requests):
            is_json = content_type.lower().replace(" ", "") in PLAIN_JSON
            if self._reader is None or not is_json or isinstance(body, bytes):
                continue
            if (rows := self._reader.read(body)) is None:
                continue
            group = groups.setdefault(rows.key, [])
            if group and sum(each.length for _, each in group) + rows.length > self._most_rows:
                yield groups.pop(rows.key)
                group = groups.setdefault(rows.key, [])
            group.append((place, rows))
        yield from groups.values()

    def _answer_together(self, group: Group, answers: list[Response | None]) -> None:
        """Answer the requests of *group*; where that fails, each is left to be answered alone."""
        assert self._layout is not None, "requests have been read"
        parts, start = [rows for _, rows in group], 0
        try:
            inputs = join(parts, self._layout)
            predictions = self._scorer.predict(inputs, parts[0].params)
            for place, rows in group:
                body = predictions.json(start, start + rows.length)
                answers[place] = Response(body, content_type=JSON)
                start += rows.length
        except Exception as error:  # noqa: BLE001 - a model may raise anything
            self._logger.info("%d requests are answered one by one: %r", len(group), error)


def _request_of(value: Any) -> Invocation:
    """Return a request of the protocol, or the JSON of one that came to the model's own route."""
    return value if isinstance(value, Invocation) else Invocation(JSON, json.dumps(value))
