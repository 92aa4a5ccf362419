# SPDX-License-Identifier: Apache-2.0
"""``__all__`` names what other modules import; every error has a status and a place in the tree."""

import ast
import inspect
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

import servekit
from servekit import errors

ROOT = Path(__file__).parents[2]
HOMES = (ROOT, ROOT / "archiver", *ROOT.glob("plugins/*"))  #: of the packages

CLASSES = [value for value in vars(errors).values() if inspect.isclass(value)]
CLASSES = [value for value in CLASSES if issubclass(value, errors.ServekitError)]


def test_everything_servekit_exports_is_there():
    assert [name for name in servekit.__all__ if not hasattr(servekit, name)] == []


def test_every_name_that_another_module_imports_is_in_all():
    assert unlisted(HOMES) == set()


def test_a_name_that_is_imported_but_not_in_all_is_found(tmp_path):
    package = tmp_path / "servekit_example"
    package.mkdir()
    (package / "source.py").write_text('__all__ = ["ONE"]\nONE, TWO = 1, 2\n')
    (package / "names.py").write_text("from servekit_example.source import __all__\n")
    (package / "user.py").write_text(
        "from servekit_example import source\n"
        "from servekit_example.source import ONE, TWO\n"
        "from servekit_example.names import ONE, THREE\n"
    )

    assert unlisted([tmp_path]) == {"servekit_example.source.TWO", "servekit_example.names.THREE"}


def unlisted(homes: Iterable[Path]) -> set[str]:
    """Return the names that a module imports from another one whose ``__all__`` lacks them.

    :param homes: directories that hold packages, whose names begin with ``servekit``.
    """
    trees = {name: tree for home in homes for name, tree in modules_below(home)}
    public = {name: {"*", "__all__", *listed(tree, trees)} for name, tree in trees.items()}
    return {
        f"{node.module}.{alias.name}"
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module in trees
        for alias in node.names
        if alias.name not in public[node.module] and f"{node.module}.{alias.name}" not in trees
    }


def modules_below(home: Path) -> Iterable[tuple[str, ast.Module]]:
    for path in sorted(home.glob("servekit*/**/*.py")):
        name = ".".join(path.relative_to(home).with_suffix("").parts)
        yield name.removesuffix(".__init__"), ast.parse(path.read_text(encoding="utf-8"))


def listed(tree: ast.Module, trees: Mapping[str, ast.Module]) -> list[str]:
    """Return the ``__all__`` of a module, which it may have from another one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            return ast.literal_eval(node.value)
        if isinstance(node, ast.ImportFrom) and "__all__" in {alias.name for alias in node.names}:
            return listed(trees[node.module], trees)
    return []


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_error_is_exported_and_drawn_in_the_tree(kind):
    assert kind.__name__ in errors.__all__
    assert kind.__name__ in (errors.__doc__ or "")
    assert kind.__doc__


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_error_survives_the_channel_as_its_name(kind):
    assert errors.error_class(kind.__name__) is kind


@pytest.mark.parametrize("name", ["", "int", "error_class", "NoSuchError"])
def test_unknown_error_name_is_a_failed_prediction(name):
    assert errors.error_class(name) is errors.PredictFailed


def test_problem_of_an_internal_error_tells_no_detail():
    members = errors.problem(errors.PredictFailed, "id-1", "secret", ["secret"])

    assert members == {
        "type": "about:blank", "title": "Prediction failed", "status": 500, "request_id": "id-1",
    }  # fmt: skip
