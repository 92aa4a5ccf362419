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
def test_hook_says_where_it_runs_what_it_returns_and_why_one_result_is_picked(name, hook):
    text = inspect.getdoc(hook)
    returns = inspect.signature(hook).return_annotation is not None

    assert "Runs in:" in text
    assert (":return:" in text) == returns
    assert ("The first plugin that returns" in " ".join(text.split())) == bool(
        hook.servekit_spec["firstresult"]
    )


def test_hooks_are_called_by_pluggy_alone():
    """So that wrappers, ``tryfirst`` and ``trylast`` work."""
    paths = [*ROOT.glob("servekit/**/*.py"), *ROOT.glob("archiver/servekit_archiver/**/*.py")]
    calls = {path.name for path in paths if ".function" in path.read_text(encoding="utf-8")}

    assert calls == {"plugins.py"}  # of the archiver: it notes which plugin a result is from


@pytest.mark.parametrize(("name", "hook"), HOOKS)
def test_hook_is_small_exported_and_used(name, hook):
    assert len(inspect.signature(hook).parameters) <= 3
    assert name in hookspecs.__all__
    assert any(f"def {name}(" in text for text in PLUGINS)
