# SPDX-License-Identifier: Apache-2.0
"""Every hook is documented, is small, and is used by a plugin of this repository."""

import inspect
from pathlib import Path

import pytest

from servekit import hookspecs

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs/writing-a-plugin.md").read_text(encoding="utf-8")
FILES = [*ROOT.glob("plugins/*/*/hooks.py"), *ROOT.glob("servekit/builtin/*.py")]
PLUGINS = [path.read_text(encoding="utf-8") for path in FILES]
HOOKS = [
    pytest.param(name, value, id=name)
    for name, value in vars(hookspecs).items()
    if hasattr(value, "servekit_spec")
]


def test_there_are_hooks():
    assert len(HOOKS) >= 4


@pytest.mark.parametrize(("name", "hook"), HOOKS)
def test_hook_has_its_part_in_the_guide(name, hook):
    arguments = ", ".join(inspect.signature(hook).parameters)

    assert f"### {name}({arguments})\n" in GUIDE
    assert f"| `{name}` |" in GUIDE


@pytest.mark.parametrize(("name", "hook"), HOOKS)
def test_hook_is_small_exported_and_used(name, hook):
    assert len(inspect.signature(hook).parameters) <= 3
    assert name in hookspecs.__all__
    assert any(f"def {name}(" in text for text in PLUGINS)
