# SPDX-License-Identifier: Apache-2.0
"""Which packages an image gets, and in which version."""

from types import SimpleNamespace

import pytest
from packaging.requirements import Requirement

from servekit.container.packages import installed_closure, pins, wanted_names
from servekit.errors import StartupError


def test_a_version_that_no_index_has_is_pinned_by_what_an_index_calls_it():
    package = SimpleNamespace(version="2.4.0+cpu", name="torch")

    assert pins([Requirement("torch")], {"torch": package}, set()) == ["torch==2.4.0"]


def test_extras_and_packages_that_are_not_installed_are_asked_for_as_written():
    roots = [Requirement("servekit[zstd]"), Requirement("no-such-package>=2")]
    closure = installed_closure(roots)

    assert pins(roots, closure, set())[:2] == ["no-such-package>=2", "servekit[zstd]"]
    assert {"servekit", "msgspec", "greenlet"} <= set(closure)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("numpy>=1\nTorch_X[cpu]==2 ; python_version > '3'\n", {"numpy", "torch-x"}),
        ("# all\n\n--extra-index-url https://a/b\nnumpy==1 \\\n  --hash=sha256:00\n", {"numpy"}),
    ],
)
def test_names_in_a_requirements_file_are_for_the_model_to_decide(text, names):
    assert wanted_names(text, "m") == names


@pytest.mark.parametrize("line", ["-r a.txt", "-c a.txt", "-e .", "./a.whl", "--requirement=a"])
def test_a_requirements_file_stands_alone(line):
    with pytest.raises(StartupError, match=f"m: '{line}' refers to another file"):
        wanted_names(f"numpy\n{line}\n", "m")
