# SPDX-License-Identifier: Apache-2.0
"""``python -m servekit.worker.boot.describe DIRECTORY < MANIFEST``: interfaces without a model.

Imports the modules of the services and reads the annotations of their methods. No service is
constructed or loaded. Prints the ``Interface`` of each stage as JSON.
"""

import os
import sys
from pathlib import Path

import msgspec
from servekit_archiver import Manifest

from servekit.ipc.table import Interface
from servekit.plugins import create_plugin_manager
from servekit.worker.boot.assembly import assemble
from servekit.worker.boot.service_lookup import find_service
from servekit.worker.codecs.table import CodecTable
from servekit.worker.process.setup import leave, take_stdout
from servekit.worker.process.tracebacks import reason_of

__all__ = ["main", "read_interfaces"]


def main() -> int:
    """Print the interfaces; what the modules print goes to stderr. Return the exit status."""
    answer, directory = take_stdout(), sys.argv[1]
    try:
        manifest = Manifest.from_mapping(msgspec.json.decode(sys.stdin.buffer.read()))
        interfaces = read_interfaces(manifest, Path(directory))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - an author's module may raise anything
        os.write(2, f"{reason_of(error, directory)}\n".encode())
        return 1
    with os.fdopen(answer, "wb") as file:
        file.write(msgspec.json.encode(interfaces))
    return 0


def read_interfaces(manifest: Manifest, directory: Path) -> dict[str, Interface]:
    """Return what the service of each stage declares; "" is a model without stages.

    What only ``load`` finds out, such as the signature of an ONNX graph, is left out.

    :raises StartupError: there is no such service, or its annotations do not resolve.
    """
    sys.path.insert(0, str(directory))
    manager = create_plugin_manager()
    stages = manifest.every_stage if manifest.stages else {"": manifest}
    found = {}
    for name, stage in stages.items():
        kind = find_service(stage.service or "", directory, manager)
        service = kind.__new__(kind)
        if stage.signature is not None:
            service.signature = stage.signature.to_mapping()
        table, has_rows = CodecTable(manager), manifest.rows
        interface = assemble(service, table, has_rows=has_rows, is_loaded=False).interface
        says = interface.signature, interface.input_schema, interface.output_schema
        bare = Interface(endpoints=interface.endpoints, is_async=interface.is_async)
        found[name] = interface if any(says) else bare
    return found


if __name__ == "__main__":
    leave(main())
