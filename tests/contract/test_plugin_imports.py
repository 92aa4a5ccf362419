# SPDX-License-Identifier: Apache-2.0
"""The plugins of this repository use the public modules of servekit, and nothing else of it."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: what ``docs/writing-a-plugin.md`` says a plugin may import; each with what is below it, but for
#: ``servekit`` itself
PUBLIC = {
    "servekit.client",
    "servekit.errors",
    "servekit.extension",
    "servekit.frontend.transport",
    "servekit.hookspecs",
    "servekit.plugins",
    "servekit.service",
    "servekit.settings",
    "servekit.testing",
    "servekit.types",
    "servekit.vision",
}
#: by plugin: what else it needs, and why that is not public
ALLOWED: dict[str, set[str]] = {}
FILES = sorted(ROOT.glob("plugins/*/servekit_*/**/*.py"))


def imported(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def is_public(name, allowed):
    return any(name == each or name.startswith(f"{each}.") for each in allowed)


@pytest.mark.parametrize("plugin", sorted({path.relative_to(ROOT).parts[1] for path in FILES}))
def test_plugin_imports_what_is_public(plugin):
    allowed, private = PUBLIC | ALLOWED.get(plugin, set()), set()
    for path in FILES:
        if path.relative_to(ROOT).parts[1] == plugin:
            names = {name for name in imported(path) if name.startswith("servekit.")}
            private |= {name for name in names if not is_public(name, allowed)}

    assert private == set()


def test_the_guide_names_what_is_public():
    guide = (ROOT / "docs/writing-a-plugin.md").read_text(encoding="utf-8")

    assert [name for name in sorted(PUBLIC) if f"`{name}`" not in guide] == []
