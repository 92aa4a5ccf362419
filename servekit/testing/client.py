# SPDX-License-Identifier: Apache-2.0
"""A service loaded in this process, asked through the codecs and checks of a worker."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import msgspec
from servekit_archiver import Manifest, load_directory
from servekit_archiver.directory.model_toml import MODEL_TOML

from servekit.errors import RequestError, ServekitError, error_class, problem
from servekit.ipc.batches import QUERY, Item
from servekit.ipc.control import Launch
from servekit.ipc.response_style import style_of
from servekit.plugins import create_plugin_manager
from servekit.service.base import Service
from servekit.testing.response import OK, Response
from servekit.worker.boot.loading import Loading, load_class
from servekit.worker.boot.proof import prove
from servekit.worker.codecs import msgpack
from servekit.worker.prediction.current_batch import OpenItem

__all__ = ["ServiceClient"]

JSON = "application/json"
REQUEST_ID = "test"


class ServiceClient:
    """Loads a service, and answers as a worker would that holds it."""

    def __init__(
        self,
        service: type[Service],
        directory: str | Path = ".",
        *,
        options: Mapping[str, Any] | None = None,
        assets: Mapping[str, str | Path] | None = None,
        calls: Mapping[str, Callable[[Any], Any]] | None = None,
    ) -> None:
        """Load *service*. Raises what its ``load`` raises.

        :param directory: the model's; its ``model.toml`` counts, if it has one.
        :param options: in place of the ``[options]`` there.
        :param assets: name to path: what ``context.asset`` finds; nothing is fetched.
        :param calls: model to function: what ``context.call`` calls, in place of the service's
            ``stand_in``; a function may raise ``CallError``.
        """
        directory = Path(directory).resolve()
        manifest = _manifest(service, directory, calls or {})
        if options is not None:
            manifest = replace(manifest, options=options)
        launch = Launch(
            directory=str(directory),
            manifest=b"",  # parsed already
            replica=0,
            replicas=1,
            generation=0,
            threads=1,
            max_batch_size=manifest.batching.max_batch_size,
            max_concurrency=manifest.batching.max_concurrency,
            max_answer_bytes=1 << 30,
            arena_bytes=0,
            large_body_bytes=0,
            assets={name: str(path) for name, path in (assets or {}).items()},
        )
        self._loading = Loading(launch, manifest)
        self._style = style_of(manifest.to_mapping())
        stand_in = None if calls is None else lambda model, value: calls[model](value)
        self._loaded = load_class(service, self._loading, create_plugin_manager(), stand_in)
        self.service = self._loaded.service

    def predict(self, batch: Sequence[Any]) -> list[Any]:
        """Send *batch* as requests that arrive together, and return an output for each.

        In place of an output that is refused or fails is the error, an instance of a class of
        ``servekit.errors``. An input is sent as JSON, bytes unchanged, and a value with arrays
        as msgpack; an output is decoded JSON, or bytes.
        """
        items = [_item(*_encoded(value)) for value in batch]
        return [_output(*answer) for answer in self._loaded.predictor.answer(items).answers]

    def post(
        self,
        body: bytes,
        content_type: str = JSON,
        accept: str = "",
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
    ) -> Response:
        """Send one request and return its answer.

        :param headers: what ``Request.headers`` holds.
        :param query: what ``Request.query`` holds.
        """
        item = _item(body, content_type, accept)
        item.headers = {name.lower(): value for name, value in (headers or {}).items()}
        item.headers |= {QUERY + name: value for name, value in (query or {}).items()}
        if (style := self._style) is not None:
            item.style = style
            if style.media_type:
                item.content_type, item.accept = style.fill(item.content_type, item.accept)
        turn = self._loaded.predictor.answer([item])
        error, media_type, answer = turn.answers[0]
        if not error:
            status, own = turn.responses.get(0, (OK, []))
            return Response(status, media_type, answer, dict(own))
        kind = error_class(error)
        told = problem(kind, REQUEST_ID, **msgspec.json.decode(answer))
        return Response(kind.status, "application/problem+json", msgspec.json.encode(told))

    def run_examples(self) -> None:
        """Run the ``[[examples]]`` and ``[warm_up]`` of ``model.toml``.

        :raises BootError: one fails, as it would before a replica is ready.
        """
        prove(self._loaded, self._loading)

    def close(self) -> None:
        """Let the service release what it took. Raises what its ``close`` raises."""
        try:
            self._loaded.call(self.service.close)
        finally:
            if self._loaded.loop is not None:
                self._loaded.loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


def _manifest(service: type[Service], directory: Path, calls: Iterable[str]) -> Manifest:
    if (directory / MODEL_TOML).exists():
        return load_directory(directory)
    return Manifest(name="test", service=f"service:{service.__name__}", calls=tuple(calls))


def _encoded(value: Any) -> tuple[bytes, str]:
    if isinstance(value, bytes):
        return value, "application/octet-stream"
    try:
        return msgspec.json.encode(value), JSON
    except TypeError:
        return msgpack.codec.encode(value), "application/msgpack"


def _item(body: bytes, content_type: str, accept: str = "") -> OpenItem:
    return Item(body, content_type.encode(), accept.encode(), REQUEST_ID, math.inf)


def _output(error: str, media_type: str, body: bytes) -> Any:
    if not error:
        return msgspec.json.decode(body)["prediction"] if media_type == JSON else body
    kind, told = error_class(error), msgspec.json.decode(body)
    return kind(**told) if issubclass(kind, RequestError) else _failure(kind, told["detail"])


def _failure(kind: type[ServekitError], detail: str) -> ServekitError:
    return kind(detail or f"{kind.title}; the traceback is on stderr")
