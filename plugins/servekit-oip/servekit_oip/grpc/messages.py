# SPDX-License-Identifier: Apache-2.0
"""The protobuf messages of the ``.proto`` files beside this one.

They are in a separate pool: the pool that all generated modules share can hold only one
``inference.ModelInferRequest``, and a service may import ``tritonclient``, which brings another.
"""

from importlib.resources import files
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from servekit_oip.grpc.compile import DESCRIPTORS

__all__ = ["SERVICE", "message_class", "pool"]

SERVICE = "inference.GRPCInferenceService"

pool = descriptor_pool.DescriptorPool()
_files = descriptor_pb2.FileDescriptorSet.FromString(
    (files("servekit_oip.grpc") / DESCRIPTORS).read_bytes()
)
for _file in _files.file:
    pool.AddSerializedFile(_file.SerializeToString())


def message_class(name: str) -> Any:
    """Return the class of the message *name*, such as ``ModelInferRequest``."""
    full = name if "." in name else f"inference.{name}"
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(full))
