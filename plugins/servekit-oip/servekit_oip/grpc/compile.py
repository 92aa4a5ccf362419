# SPDX-License-Identifier: Apache-2.0
"""``python -m servekit_oip.grpc.compile``: writes ``services.binpb`` from the ``.proto`` files.

For development: it needs ``grpcio-tools``, which servers do not.
"""

from importlib.resources import files
from pathlib import Path

__all__ = ["DESCRIPTORS", "PROTOS", "compiled"]

HERE = Path(__file__).parent
PROTOS = ("inference.proto", "health.proto", "reflection.proto")
DESCRIPTORS = "services.binpb"  #: the file of the compiled messages


def compiled(directory: Path) -> bytes:
    """Return what the files compile to; *directory* is for the compiler."""
    from grpc_tools import protoc

    output = directory / DESCRIPTORS
    includes = str(files("grpc_tools") / "_proto")
    arguments = ["protoc", f"-I{HERE}", f"-I{includes}", f"--descriptor_set_out={output}"]
    if protoc.main([*arguments, *PROTOS]):
        raise SystemExit("the .proto files cannot be compiled")
    return output.read_bytes()


if __name__ == "__main__":
    compiled(HERE)
