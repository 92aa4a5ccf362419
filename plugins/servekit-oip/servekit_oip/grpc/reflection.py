# SPDX-License-Identifier: Apache-2.0
"""The reflection service of gRPC: tells clients which services and messages there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from google.protobuf import descriptor_pb2

from servekit_oip.grpc.codes import StatusCode
from servekit_oip.grpc.messages import message_class, pool

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from servekit_oip.grpc.call import GrpcCall

__all__ = ["REFLECTIONS", "Reflection"]

PACKAGE: Final = "grpc.reflection.v1alpha"
#: both have the same messages
REFLECTIONS: Final = (f"{PACKAGE}.ServerReflection", "grpc.reflection.v1.ServerReflection")
Request: Final = message_class(f"{PACKAGE}.ServerReflectionRequest")
Response: Final = message_class(f"{PACKAGE}.ServerReflectionResponse")


class Reflection:
    """Answers questions about the ``.proto`` files."""

    def __init__(self, services: Sequence[str]) -> None:
        """List *services*."""
        self._services = services

    def answer(self, call: GrpcCall) -> Iterator[bytes]:
        """Answer ServerReflectionInfo. In a greenlet."""
        for message in call.messages():
            asked = Request.FromString(message.body)
            response = Response(valid_host=asked.host, original_request=asked)
            try:
                self._fill(response, asked)
            except KeyError:
                response.error_response.error_code = StatusCode.NOT_FOUND
                response.error_response.error_message = "not found"
            yield response.SerializeToString()

    def _fill(self, response: Any, asked: Any) -> None:
        """Put the answer to *asked* into *response*.

        :raises KeyError: there is no such file or symbol.
        """
        match asked.WhichOneof("message_request"):
            case "list_services":
                for name in self._services:
                    response.list_services_response.service.add(name=name)
            case "file_by_filename":
                _add(response, pool.FindFileByName(asked.file_by_filename))
            case "file_containing_symbol":
                _add(response, pool.FindFileContainingSymbol(asked.file_containing_symbol))
            case _:  # there are no extensions
                raise KeyError


def _add(response: Any, file: Any) -> None:
    found = descriptor_pb2.FileDescriptorProto()
    file.CopyToProto(found)
    response.file_descriptor_response.file_descriptor_proto.append(found.SerializeToString())
