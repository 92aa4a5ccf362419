# SPDX-License-Identifier: Apache-2.0
"""``python -m servekit.worker.boot.store_assets PARENT DIRECTORY INTO < MANIFEST``.

Calls ``store_assets`` of the services of the model in DIRECTORY, which are constructed but not
loaded. What they print goes to stderr; stdout gets one line that says what went wrong.
"""

import inspect
import os
import sys
from pathlib import Path

import msgspec
from servekit_archiver import Manifest

from servekit.errors import BootError
from servekit.plugins import create_plugin_manager
from servekit.service.base import Service
from servekit.system.parent_death import die_with_parent
from servekit.worker.boot.service_lookup import find_service
from servekit.worker.process.setup import leave, take_stdout
from servekit.worker.process.tracebacks import reason_of

__all__ = ["main", "store"]


def main() -> int:
    """Call ``store_assets``, or print the reason why not; return the exit status."""
    parent, directory, into = sys.argv[1:]
    die_with_parent(int(parent))
    answer = take_stdout()
    try:
        manifest = Manifest.from_mapping(msgspec.json.decode(sys.stdin.buffer.read()))
        store(manifest, Path(directory), Path(into))
    except KeyboardInterrupt:
        return 1
    except (Exception, SystemExit) as error:  # noqa: BLE001 - an author's code may raise anything
        os.write(answer, reason_of(error, directory).encode())
        return 1
    return 0


def store(manifest: Manifest, directory: Path, into: Path) -> None:
    """Call ``store_assets`` of each service of *manifest* that has the method.

    :raises BootError: no service has it.
    """
    sys.path.insert(0, str(directory))
    manager = create_plugin_manager()
    names = dict.fromkeys(stage.service for stage in manifest.every_stage.values())
    kinds = [find_service(name or "", directory, manager) for name in names]
    makers = [kind for kind in kinds if _has_method(kind)]
    if not makers:
        without = ", ".join(name for name, asset in manifest.assets.items() if asset.url is None)
        called = ", ".join(kind.__name__ for kind in kinds)
        raise BootError(f"{called} has no store_assets(directory), and {without} no url")
    for kind in makers:
        kind().store_assets(into)


def _has_method(kind: type[Service]) -> bool:
    own, inherited = (inspect.getattr_static(each, "store_assets") for each in (kind, Service))
    return own is not inherited


if __name__ == "__main__":
    leave(main())
