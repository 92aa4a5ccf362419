# SPDX-License-Identifier: Apache-2.0
"""The keys of a manifest that name a file of the model: each must be there."""

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from servekit_archiver.names import name_problem
from servekit_archiver.strictjson import join, show

__all__ = ["PLUGIN_SERVICE", "SERVICE", "module_files", "reference_problems"]

SERVICE: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)
PLUGIN_SERVICE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

#: modules that a worker has imported, or would import, before any file of the model
TAKEN: Final = frozenset({*sys.stdlib_module_names, "__main__", "servekit", "servekit_archiver"})


def module_files(module: str) -> tuple[str, str]:
    """Return the two files that dotted *module* may be."""
    path = module.replace(".", "/")
    return f"{path}.py", f"{path}/__init__.py"


def reference_problems(table: Mapping[Any, Any], exists: Callable[[str], bool]) -> Iterator[str]:
    """Yield a problem for each key of *table* that names a file which is not there.

    Values of a wrong kind are passed over: their own check reports them.

    :param exists: says whether the model has the file of this name.
    """
    for where, part in _parts(table):
        service = part.get("service")
        if isinstance(service, str) and SERVICE.fullmatch(service):
            yield from (f"{where}{problem}" for problem in _service_problems(service, exists))
    for where, name in _named_files(table):
        if isinstance(name, str) and name_problem(name) is None and not exists(name):
            yield f"{where}: {show(name)} is not a file of the model"


def _service_problems(service: str, exists: Callable[[str], bool]) -> Iterator[str]:
    module = service.partition(":")[0]
    if module.partition(".")[0] in TAKEN:
        yield f"service: {show(service)}: {module} is a module of Python or servekit; use another"
    elif not any(map(exists, files := module_files(module))):
        yield f"service: {show(service)}: the model has neither {files[0]} nor {files[1]}"


def _parts(table: Mapping[Any, Any]) -> Iterator[tuple[str, Mapping[Any, Any]]]:
    """Yield the model itself and its stages, with what their keys begin with."""
    yield "", table
    stages = table.get("stages")
    for name, stage in stages.items() if isinstance(stages, Mapping) else ():
        if isinstance(stage, Mapping):
            yield f"{join('stages', name)}.", stage


def _named_files(table: Mapping[Any, Any]) -> Iterator[tuple[str, Any]]:
    yield "requirements", table.get("requirements")
    if isinstance(lock := table.get("lock"), Mapping):
        yield "lock.file", lock.get("file")
    for where, part in _parts(table):
        examples = part.get("examples")
        for index, example in enumerate(examples if isinstance(examples, list | tuple) else ()):
            if isinstance(example, Mapping):
                yield f"{where}examples[{index}].input_file", example.get("input_file")
