# SPDX-License-Identifier: Apache-2.0
"""The envelopes of one worker: imported when the first request comes by their protocol."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import structs

from servekit.errors import NotAcceptable, PluginError, RequestError
from servekit.extension.envelope import Envelope
from servekit.extension.models import ModelView
from servekit.plugins import import_target
from servekit.worker.envelopes.opened import OpenedRequest
from servekit.worker.prediction.error_answers import error_answer
from servekit.worker.prediction.request_reader import BodyReaders, sent
from servekit.worker.process.log import report

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from servekit.ipc.batches import Calls, MethodCall
    from servekit.ipc.control import Launch
    from servekit.ipc.table import Interface
    from servekit.worker.codecs.table import CodecTable
    from servekit.worker.prediction.batch_result import Answered
    from servekit.worker.prediction.current_batch import OpenItem
    from servekit.worker.prediction.output_mistakes import Encode

__all__ = ["EnvelopeTable"]


class EnvelopeTable:
    """Makes what reads and writes the requests of protocols."""

    def __init__(
        self,
        interface: Interface,
        codecs: CodecTable,
        launch: Launch,
        colocated: Mapping[str, Interface] | None = None,
    ) -> None:
        """Import nothing yet.

        :param interface: of the service that *launch* has started.
        :param colocated: the interfaces of other stages in this worker.
        """
        self._interface = interface
        self.launch = launch  #: has the limits of answers
        self._colocated = colocated or {}
        self._codecs = WorkerCodecs(codecs)
        self.takes_view = self._codecs.takes_view
        #: bodies of answers that are shorter need no further look
        self.small_bytes = min(launch.max_answer_bytes, launch.large_body_bytes)
        self._envelopes: dict[tuple[str, Calls], Envelope] = {}
        self.plain: dict[tuple[str, Calls], Envelope] = {}  #: those that have ``decode_plain``

    def open(self, item: OpenItem) -> OpenedRequest:
        """Return the request of *item*, which comes by a protocol.

        :raises PluginError: its envelope cannot be imported, or is not one.
        """
        assert item.protocol is not None
        key = item.protocol.envelope, item.calls
        envelope = self._envelopes.get(key)
        if envelope is None:
            self._envelopes[key] = envelope = self._make(*key)
            if type(envelope).decode_plain is not Envelope.decode_plain:
                self.plain[key] = envelope
        return OpenedRequest(envelope, item, self.launch, self.takes_view)

    def failed(self, item: OpenItem, error: BaseException) -> Answered:
        """Return the answer of *error*, which was raised while the request of *item* was read."""
        if not isinstance(error, RequestError) and item.protocol is not None:
            report(f"{item.protocol.envelope} failed", error, [item.request_id])
        return error_answer(error)

    def _make(self, target: str, calls: Calls) -> Envelope:
        kind = import_target(target)
        if not (isinstance(kind, type) and issubclass(kind, Envelope)):
            raise PluginError(f"{target} is not a subclass of servekit.extension.Envelope")
        manifest = msgspec.json.decode(self.launch.manifest)
        model = ModelView(
            name=manifest["name"],
            version=manifest.get("version", ""),
            interface=self._interface_of(calls),
            max_batch_size=self.launch.max_batch_size,
            directory=Path(self.launch.directory),
        )
        return kind(model, self._codecs)

    def _interface_of(self, calls: Calls) -> Interface:
        """Return the inputs of the first of *calls*, and the outputs of the last one."""
        if not calls:
            return self._interface
        first, last = self._interface_of_call(calls[0]), self._interface_of_call(calls[-1])
        return first if len(calls) == 1 else _joined(first, last)

    def _interface_of_call(self, call: MethodCall) -> Interface:
        interface = self._colocated.get(call.stage, self._interface)
        endpoints = {row.name: row.interface for row in interface.endpoints}
        return endpoints.get(str(call.method), interface)


def _joined(first: Interface, last: Interface) -> Interface:
    """Return the interface of stages: without a signature, if the first one has none."""
    signature = first.signature
    if signature is not None:
        signature = signature | {"outputs": (last.signature or {}).get("outputs", [])}
    return structs.replace(
        first,
        signature=signature,
        output_schema=last.output_schema,
        schema_definitions=first.schema_definitions | last.schema_definitions,
        produces=last.produces,
        task=last.task,
    )


class WorkerCodecs:
    """The codecs of a worker, as envelopes use them."""

    def __init__(self, table: CodecTable) -> None:
        """Use those of *table*."""
        self._table, self._readers = table, BodyReaders(table)
        self._encoders: dict[str, Encode] = {}  #: by media type

    def read(self, content_type: str, body: bytes) -> Any:
        """Return the value of *body*."""
        return self._readers[sent(content_type.encode("latin-1"))].decode(body)

    def takes_view(self, content_type: bytes) -> bool:
        """Whether bodies of *content_type* may be read as memoryviews."""
        return self._readers.takes_views(content_type)

    def write(self, media_type: str, output: Any) -> bytes:
        """Return *output* as *media_type*."""
        encode = self._encoders.get(media_type)
        if encode is None:
            codec = self._table.writer(media_type)
            if codec is None or codec.encode is None:
                raise NotAcceptable(f"{media_type} is not written here")
            self._encoders[media_type] = encode = codec.encode
        return encode(output)

    def list_type(self, dtype: str, shape: Sequence[int]) -> Any:
        """Return the type of the lists of an array; ``None`` if msgspec cannot check so much."""
        from servekit.worker.inputs.tensors import TensorReader  # imports numpy

        return TensorReader({"name": "", "dtype": dtype, "shape": shape}).exact
