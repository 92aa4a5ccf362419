# SPDX-License-Identifier: Apache-2.0
"""Imports the code of an archive, with ``mms`` as this plugin has it. Runs in: worker."""

from __future__ import annotations

import inspect
import sys
from importlib import import_module, invalidate_caches
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from servekit.errors import BootError
from servekit_mms.model_service import BASES, ModelService

if TYPE_CHECKING:
    from types import ModuleType

__all__ = [
    "WAY_OUT",
    "import_file",
    "import_name",
    "model_service_of",
    "model_services_in",
    "use_shim",
]

#: the packages that code of MMS imports; only workers of such models see them
SHIM: Final = Path(__file__).parent / "shim"
WAY_OUT: Final = """\
convert the network to ONNX, and serve the file with servekit-onnx, whose [options.image] stands \
for MXNetVisionService; docs/migrating/from-mms.md says how"""
NONE: Final = "No valid python class derived from Base Model Service is in module file: {path}"
SEVERAL: Final = (
    "There should be one user defined service derived from ModelService; {path} has {names}"
)


def use_shim() -> None:
    """Let ``import mms`` find the names of MMS that this plugin has."""
    if str(SHIM) not in sys.path:
        sys.path.insert(0, str(SHIM))
        invalidate_caches()


def import_file(path: Path) -> ModuleType:
    """Return the module in *path*, under the name of the file.

    :raises BootError: it needs MXNet, which is not installed. Other exceptions are its own.
    """
    use_shim()
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None, "the file is Python"
    assert spec.loader is not None, "the file is Python"
    module = module_from_spec(spec)
    sys.modules[path.stem] = module
    with MXNetExplained(path.name):
        spec.loader.exec_module(module)
    return module


def import_name(name: str) -> ModuleType:
    """Return the module called *name* of an archive, whose directory is on ``sys.path``.

    :raises BootError: it needs MXNet, which is not installed. Other exceptions are its own.
    """
    use_shim()
    with MXNetExplained(name):
        return import_module(name)


class MXNetExplained:
    """Says what to do if the code in a ``with`` needs MXNet."""

    def __init__(self, code: str) -> None:
        """Name the *code*."""
        self._code = code

    def __enter__(self) -> None: ...

    def __exit__(self, _kind: Any, error: BaseException | None, _traceback: Any) -> None:
        """Replace the error of a missing ``mxnet``."""
        missing = getattr(error, "name", None) or ""
        if isinstance(error, ModuleNotFoundError) and missing.partition(".")[0] == "mxnet":
            raise BootError(
                f"{self._code} imports mxnet, which is not installed; {WAY_OUT}"
            ) from error


def model_services_in(module: ModuleType) -> list[type[ModelService]]:
    """Return the service classes of 0.x in *module* that no other class there derives from.

    Those of this plugin count only if there are no others.
    """
    found = {
        each
        for _, each in inspect.getmembers(module, inspect.isclass)
        if issubclass(each, ModelService)
    }
    leaves = {each for each in found if not any(each in other.__mro__[1:] for other in found)}
    own = leaves - set(BASES)
    return sorted(own or leaves, key=lambda each: each.__name__)


def model_service_of(module: ModuleType, path: Path, name: str = "") -> type[ModelService]:
    """Return the service class of 0.x in *module* that is called *name*, or the only one.

    :raises BootError: there is none, or several.
    """
    found = [each for each in model_services_in(module) if name in ("", each.__name__)]
    if not found:
        raise BootError(NONE.format(path=path.name))
    if len(found) > 1:
        names = ", ".join(each.__name__ for each in found)
        raise BootError(SEVERAL.format(names=names, path=path.name))
    return found[0]
