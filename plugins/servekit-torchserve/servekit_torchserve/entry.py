# SPDX-License-Identifier: Apache-2.0
"""Finds what an archive names as its handler: a function, a class, or one of TorchServe's own."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from servekit_archiver import file_in

from servekit.errors import BootError

if TYPE_CHECKING:
    from types import ModuleType

    from servekit_torchserve.context import HandlerContext

__all__ = ["Handle", "import_file", "open_handler"]

#: gets a list of dictionaries, one for each request, and the context; returns a list
Handle = Callable[[Any, "HandlerContext"], Any]

#: module and class of each handler that an archive can name without a file
BUILT_IN: Final = {
    "base_handler": ("servekit_torchserve.builtin.base_handler", "BaseHandler"),
    "image_classifier": ("servekit_torchserve.builtin.vision", "ImageClassifier"),
    "image_segmenter": ("servekit_torchserve.builtin.vision", "ImageSegmenter"),
    "object_detector": ("servekit_torchserve.builtin.vision", "ObjectDetector"),
    "text_classifier": ("servekit_torchserve.builtin.text", "TextClassifier"),
}


def open_handler(directory: Path, handler: str, context: HandlerContext) -> Handle:
    """Import the *handler* of the archive in *directory*, and have it load its model.

    :param handler: ``file``, ``file.py``, ``file:function``, or the name of a built-in handler.
    :raises ArchiveError: *handler* names a file elsewhere.
    :raises BootError: there is no such handler, or not exactly one. Whatever its code raises.
    """
    name, _, function = handler.partition(":")
    name = name.removesuffix(".py")
    if not file_in(directory, f"{name}.py", "handler").is_file():
        return _initialized(_built_in(name)(), context)
    module = import_file(directory, name)
    entry = getattr(module, function or "handle", None)
    if callable(entry) and not inspect.isclass(entry):
        entry(None, context)  # a function loads its model when it is called without data
        return entry  # type: ignore[no-any-return]
    if function:
        raise BootError(f"handler: {handler}: the module has no function {function}")
    return _initialized(_class_of(module, handler)(), context)


def import_file(directory: Path, name: str) -> ModuleType:
    """Import *name*.py of *directory*, whatever module of this name has been imported before."""
    module, path = import_module(name), directory / f"{name}.py"
    found = getattr(module, "__file__", None)
    if found is not None and Path(found).resolve() == path.resolve():
        return module
    spec = spec_from_file_location(name, path)
    assert spec is not None, "it is a Python file"
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _initialized(service: Any, context: HandlerContext) -> Handle:
    if hasattr(service, "initialize"):
        service.initialize(context)
    return service.handle  # type: ignore[no-any-return]


def _built_in(name: str) -> Any:
    if name not in BUILT_IN:
        known = ", ".join(BUILT_IN)
        raise BootError(f"handler: {name} is not a file of the archive, nor one of {known}")
    module, kind = BUILT_IN[name]
    return getattr(import_module(module), kind)


def _class_of(module: ModuleType, handler: str) -> Any:
    """Return the only class of *module* that is a handler."""
    own = [
        each
        for each in vars(module).values()
        if inspect.isclass(each) and each.__module__ == module.__name__
    ]
    found = [each for each in own if hasattr(each, "handle") or hasattr(each, "initialize")]
    if len(found) > 1:  # one may be the base of the other
        found = [each for each in found if not any(each in other.__mro__[1:] for other in found)]
    if len(found) != 1:
        names = ", ".join(each.__name__ for each in found) or "none"
        text = "needs a function handle(data, context) or one class with a method handle"
        raise BootError(f"handler: {handler}: {text}; found: {names}")
    return found[0]
