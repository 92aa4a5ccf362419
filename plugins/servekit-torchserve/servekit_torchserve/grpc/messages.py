# SPDX-License-Identifier: Apache-2.0
"""The protobuf messages of the ``.proto`` files beside this one.

They are in a separate pool, so that they never meet those that a client in the same process has.
"""

from importlib.resources import files
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from servekit_torchserve.grpc.compile import DESCRIPTORS

__all__ = ["INFERENCE", "MANAGEMENT", "message_class", "methods_of"]

PACKAGE = "org.pytorch.serve.grpc"
INFERENCE = f"{PACKAGE}.inference.InferenceAPIsService"
MANAGEMENT = f"{PACKAGE}.management.ManagementAPIsService"

pool = descriptor_pool.DescriptorPool()
_files = descriptor_pb2.FileDescriptorSet.FromString(
    (files("servekit_torchserve.grpc") / DESCRIPTORS).read_bytes()
)
for _file in _files.file:
    pool.AddSerializedFile(_file.SerializeToString())


def message_class(name: str) -> Any:
    """Return the class of the message *name*, such as ``inference.PredictionsRequest``."""
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}"))


def methods_of(service: str) -> dict[str, tuple[Any, Any]]:
    """Return the methods of *service*: name to the classes of request and response."""
    found = pool.FindServiceByName(service)
    return {
        method.name: (
            message_factory.GetMessageClass(method.input_type),
            message_factory.GetMessageClass(method.output_type),
        )
        for method in found.methods
    }
