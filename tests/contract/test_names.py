# SPDX-License-Identifier: Apache-2.0
"""One word for one thing: no two classes have the same name."""

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ("servekit/**/*.py", "archiver/servekit_archiver/**/*.py", "plugins/*/servekit_*/**/*.py")
#: names that are public twice, and why
PUBLIC_PAIRS = {
    **dict.fromkeys(
        (
            *("DeadlineExceeded", "InputError", "QueueFull", "RequestError", "ServekitError"),
            *("ServiceError", "Unauthorized", "Unavailable"),
        ),
        "the client raises an error of the name that the server sent",
    ),
    "Response": "a service returns one, and servekit.testing shows what a client gets",
}
#: names that are still to be changed: take them out when they are
TODO: set[str] = set()


@cache
def classes() -> dict[str, list[str]]:
    """Return the files of each class, by name."""
    found = defaultdict(list)
    for path in sorted(path for pattern in SOURCES for path in ROOT.glob(pattern)):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(path.relative_to(ROOT).as_posix())
    return found


def test_no_class_name_is_used_twice():
    twice = {name: files for name, files in classes().items() if len(files) > 1}

    assert {n: files for n, files in twice.items() if n not in {*PUBLIC_PAIRS, *TODO}} == {}
    assert twice.keys() >= TODO, "these are unique now: take them out of TODO"


@pytest.mark.parametrize("name", PUBLIC_PAIRS)
def test_a_name_that_is_public_twice_is_public_in_both_places(name):
    files = classes()[name]

    assert len(files) == 2
    assert len({Path(file).parts[:2] for file in files}) == 2
