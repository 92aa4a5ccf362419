# SPDX-License-Identifier: Apache-2.0
"""``python -m servekit.worker.boot.describe DIRECTORY < MANIFEST``: interfaces without a model.

Imports the modules of the services and reads the annotations of their methods; nothing is
constructed or loaded. Prints an ``Interface`` for each stage as JSON.
"""

import os
import sys
from pathlib import Path

import msgspec
from servekit_archiver import Manifest

from servekit.ipc.table import Interface
from servekit.plugins import create_plugin_manager
from servekit.service.base import Service
from servekit.worker.boot.assembly import wrap
from servekit.worker.boot.booting import reason_of
from servekit.worker.boot.service_lookup import find_service
from servekit.worker.codecs.table import CodecTable

__all__ = ["main", "read_interfaces"]


def main() -> int:
    """Answer on what is stdout now; what the author's module prints goes to stderr."""
    answer = os.dup(1)
    os.dup2(2, 1)
    directory = sys.argv[1]
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
    """Return what the service of each stage declares; "" is that of a model without others.

    What ``load`` finds out, the signature of an ONNX graph say, is not known here.

    :raises StartupError: there is no such service, or its annotations do not resolve.
    """
    sys.path.insert(0, str(directory))
    manager = create_plugin_manager()
    stages = manifest.every_stage if manifest.stages else {"": manifest}
    found = {}
    for name, stage in stages.items():
        service = _unmade(find_service(stage.service or "", directory, manager))
        if stage.signature is not None:
            service.signature = stage.signature.to_mapping()
        found[name] = _declared(service, CodecTable(manager), is_stage=bool(name))
    return found


def _declared(service: Service, table: CodecTable, *, is_stage: bool) -> Interface:
    """Return the interface of *service*; of its endpoints alone, if it says no more."""
    found = wrap(service, table, is_loaded=False, is_handed_on=is_stage).interface
    is_known = found.signature is not None or found.input_schema or found.output_schema
    return found if is_known else Interface(endpoints=found.endpoints)


def _unmade(kind: type[Service]) -> Service:
    service: Service = kind.__new__(kind)
    return service


if __name__ == "__main__":
    exit_status = main()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and not stream.closed:
            stream.flush()
    os._exit(exit_status)  # threads that the module left behind do not keep us
