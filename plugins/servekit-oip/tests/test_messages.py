# SPDX-License-Identifier: Apache-2.0
"""The messages of gRPC are those of the proto, and do not get in the way of others."""

import pytest

service_pb2 = pytest.importorskip("tritonclient.grpc.service_pb2")

from servekit_oip.grpc.compile import compiled  # noqa: E402 - it needs protobuf, too
from servekit_oip.grpc.messages import message_class, pool  # noqa: E402


def test_the_compiled_file_is_that_of_the_proto(tmp_path):
    pytest.importorskip("grpc_tools")
    from google.protobuf import descriptor_pb2

    found = descriptor_pb2.FileDescriptorSet.FromString(compiled(tmp_path)).file[0]
    known = descriptor_pb2.FileDescriptorProto()
    pool.FindFileByName("inference.proto").CopyToProto(known)
    assert found.SerializeToString() == known.SerializeToString()


NAMES = [
    name
    for name in pool.FindFileByName("inference.proto").message_types_by_name
    if hasattr(service_pb2, name)
]


@pytest.mark.parametrize("name", NAMES)
def test_fields_are_those_of_tritonclient(name):
    ours, theirs = message_class(name).DESCRIPTOR, getattr(service_pb2, name).DESCRIPTOR
    wanted = {each.name: each for each in theirs.fields}

    for field in ours.fields:
        if (name, field.name) == ("ModelMetadataResponse", "properties"):
            continue  # of the standard; Triton has no such field
        other = wanted[field.name]
        assert (field.number, field.type, field.is_repeated) == (
            other.number,
            other.type,
            other.is_repeated,
        )


def test_most_messages_are_compared():
    assert len(NAMES) > 25
