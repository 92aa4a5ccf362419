# SPDX-License-Identifier: Apache-2.0
"""``python -m servekit.worker.describing DIRECTORY < MANIFEST``: an interface without a model.

Imports the module of the service and reads the annotations of ``predict``; nothing is
constructed or loaded. Prints an ``Interface`` as JSON, or ``null`` if nothing is declared.
"""

import os
import sys
from pathlib import Path

import msgspec
from servekit_archiver import Manifest

from servekit.messages import Interface
from servekit.plugins import create_plugin_manager
from servekit.worker.annotations import batch_types
from servekit.worker.booting import reason_of
from servekit.worker.codecs.table import CodecTable
from servekit.worker.finding import find_service
from servekit.worker.interface import describe

__all__ = ["main", "read_interface"]


def main() -> int:
    """Answer on what is stdout now; what the author's module prints goes to stderr."""
    answer = os.dup(1)
    os.dup2(2, 1)
    directory = sys.argv[1]
    try:
        manifest = Manifest.from_mapping(msgspec.json.decode(sys.stdin.buffer.read()))
        interface = read_interface(manifest, Path(directory))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - an author's module may raise anything
        os.write(2, f"{reason_of(error, directory)}\n".encode())
        return 1
    with os.fdopen(answer, "wb") as file:
        file.write(msgspec.json.encode(interface))
    return 0


def read_interface(manifest: Manifest, directory: Path) -> Interface | None:
    """Return what the service of *manifest* declares, or ``None`` if that is nothing.

    What ``load`` finds out, the signature of an ONNX graph say, is not known here.

    :raises StartupError: there is no such service, or its annotations do not resolve.
    """
    sys.path.insert(0, str(directory))
    manager = create_plugin_manager()
    kind = find_service(manifest.service or "", directory, manager)
    service = kind.__new__(kind)
    if manifest.signature is not None:
        service.signature = manifest.signature.to_mapping()
    types = batch_types(service)
    if service.signature is None and not types.are_known:
        return None
    return describe(service, types, CodecTable(manager))


if __name__ == "__main__":
    exit_status = main()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and not stream.closed:
            stream.flush()
    os._exit(exit_status)  # threads that the module left behind do not keep us
