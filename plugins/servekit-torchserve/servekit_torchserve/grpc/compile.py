# SPDX-License-Identifier: Apache-2.0
"""``python -m servekit_torchserve.grpc.compile``: writes ``services.binpb``.

It holds what is in the ``.proto`` files. For development: it needs ``grpcio-tools``, which servers
do not.
"""

from importlib.resources import files
from pathlib import Path

__all__ = ["DESCRIPTORS", "PROTOS", "compiled"]

HERE = Path(__file__).parent
PROTOS = ("inference.proto", "management.proto")
DESCRIPTORS = "services.binpb"  #: the file of the compiled messages


def compiled(directory: Path) -> bytes:
    """Return what the files compile to; *directory* is for the compiler."""
    from grpc_tools import protoc

    output = directory / DESCRIPTORS
    includes = [f"-I{HERE}", f"-I{files('grpc_tools') / '_proto'}"]
    arguments = ["protoc", *includes, "--include_imports", f"--descriptor_set_out={output}"]
    if protoc.main([*arguments, *PROTOS]):
        raise SystemExit("the .proto files cannot be compiled")
    return output.read_bytes()


if __name__ == "__main__":
    compiled(HERE)
