# SPDX-License-Identifier: Apache-2.0
"""Finds the modules that a model imports and no package of its image contains.

The code is read and not run: from the modules that the manifest names, along their imports of
files of the model. What is imported where its absence is expected does not count.
"""

import ast
import sys
from collections.abc import Iterator, Mapping, Set
from importlib.metadata import packages_distributions
from pathlib import Path

from packaging.utils import canonicalize_name
from servekit_archiver import Manifest

__all__ = ["imported_modules", "lacking"]

#: module to the package that has it, where the names differ
PACKAGES = {
    "PIL": "pillow", "bs4": "beautifulsoup4", "cv2": "opencv-python-headless",
    "dateutil": "python-dateutil", "dotenv": "python-dotenv", "faiss": "faiss-cpu",
    "fitz": "pymupdf",
    "jwt": "pyjwt", "skimage": "scikit-image", "sklearn": "scikit-learn", "yaml": "pyyaml",
}  # fmt: skip
#: packages that bring a module of another name, where nothing is installed to tell so
VARIANTS = {"cv2": "opencv-", "faiss": "faiss-", "onnxruntime": "onnxruntime-"}
ABSENT = {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"}


def lacking(
    modules: Mapping[str, str], packages: Set[str], installed: Mapping[str, list[str]] | None = None
) -> dict[str, str]:
    """Return the modules that nothing brings, and the package that each is likely to be of.

    :param modules: as ``imported_modules`` returns them.
    :param packages: canonical names of what the image will have.
    """
    known = packages_distributions() if installed is None else installed
    return {
        module: candidates[0]
        for module in modules
        if not _is_brought(module, candidates := _packages_of(module, known), packages)
    }


def _packages_of(module: str, installed: Mapping[str, list[str]]) -> list[str]:
    names = installed.get(module) or [PACKAGES.get(module, module)]
    return [canonicalize_name(name) for name in names]


def _is_brought(module: str, candidates: list[str], packages: Set[str]) -> bool:
    names = {*candidates, canonicalize_name(module)}
    prefix = VARIANTS.get(module)
    return bool(names & packages) or bool(
        prefix and any(package.startswith(prefix) for package in packages)
    )


def imported_modules(manifest: Manifest, directory: Path) -> dict[str, str]:
    """Return the foreign modules that the services of *manifest* import, and where they do."""
    services = (stage.service or "" for stage in manifest.every_stage.values())
    waiting = [name.partition(":")[0] for name in services if ":" in name]
    seen, found = set[Path](), dict[str, str]()
    while waiting:
        for file in _files(waiting.pop(), directory):
            if file in seen:
                continue
            seen.add(file)
            names = _imports(file, directory)
            waiting += names
            foreign = {name.partition(".")[0] for name in names} - sys.stdlib_module_names
            for top in foreign:
                if not _is_local(top, directory):
                    found.setdefault(top, str(file.relative_to(directory)))
    return dict(sorted(found.items()))


def _is_local(top: str, directory: Path) -> bool:
    return (directory / f"{top}.py").is_file() or (directory / top).is_dir()


def _files(name: str, directory: Path) -> Iterator[Path]:
    """Yield the files of *directory* that importing *name* runs: each package on the way."""
    folder = directory
    for part in name.split("."):
        folder = folder / part
        for file in (folder / "__init__.py", folder.with_name(f"{part}.py")):
            if file.is_file():
                yield file


def _imports(file: Path, directory: Path) -> list[str]:
    """Return the full names that *file* imports; nothing of one that Python cannot read."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):
        return []
    package = file.relative_to(directory).parent.parts
    return list(_names(tree, package))


def _names(node: ast.AST, package: tuple[str, ...]) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.level <= len(package):
        base = package[: len(package) - node.level + 1] if node.level else ()
        full = ".".join([*base, *filter(None, [node.module])])
        yield from (full, *(f"{full}.{alias.name}" for alias in node.names))
    elif name := _called(node):
        yield name
    for child in _children(node):
        yield from _names(child, package)


def _children(node: ast.AST) -> list[ast.AST]:
    """Return the parts of *node* that run, and run with what they import there."""
    if isinstance(node, ast.If) and _says_type_checking(node.test):
        return list(node.orelse)
    if isinstance(node, ast.Try) and any(map(_expects_absence, node.handlers)):
        instead = () if _is_of_python(node.body) else node.handlers
        return [*instead, *node.orelse, *node.finalbody]
    return list(ast.iter_child_nodes(node))


def _says_type_checking(test: ast.expr) -> bool:
    return "TYPE_CHECKING" in (getattr(test, "id", ""), getattr(test, "attr", ""))


def _is_of_python(body: list[ast.stmt]) -> bool:
    """Say whether *body* imports nothing but the standard library, here or in another Python."""
    names = [name for each in body for name in _names(each, ())]
    return all(name.partition(".")[0] in sys.stdlib_module_names for name in names)


def _expects_absence(handler: ast.ExceptHandler) -> bool:
    if any(isinstance(each, ast.Raise) for each in ast.walk(handler)):
        return False
    if handler.type is None:
        return True
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(getattr(kind, "id", "") in ABSENT for kind in kinds)


def _called(node: ast.AST) -> str:
    """Return the name in ``import_module("name")`` or ``__import__("name")``, or ""."""
    if not isinstance(node, ast.Call) or not node.args:
        return ""
    function = getattr(node.func, "id", "") or getattr(node.func, "attr", "")
    first = node.args[0]
    is_name = isinstance(first, ast.Constant) and isinstance(first.value, str)
    if function not in ("import_module", "__import__") or not is_name:
        return ""
    return str(getattr(first, "value", "")).lstrip(".")
