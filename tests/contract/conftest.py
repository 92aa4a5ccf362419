# SPDX-License-Identifier: Apache-2.0
"""What pages of the documentation may name."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="package")
def tests():
    """Return the names of all test functions of the repository."""
    files = [
        path
        for folder in ("tests", "archiver/tests", "plugins")
        for path in (ROOT / folder).rglob("test_*.py")
    ]
    trees = (ast.walk(ast.parse(path.read_text())) for path in files)
    return {node.name for tree in trees for node in tree if isinstance(node, ast.FunctionDef)}
