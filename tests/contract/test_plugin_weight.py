# SPDX-License-Identifier: Apache-2.0
"""Every process of a server imports the hooks of all installed plugins: they must be light."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

PLUGINS = Path(__file__).parents[2] / "plugins"
#: entry point to what its import adds, beside what a worker has imported anyway
IMPORTING = """
import importlib, json, sys
import servekit.plugins, servekit.worker.__main__
found = {}
for name in sys.argv[1:]:
    before = set(sys.modules)
    importlib.import_module(name)
    found[name] = sorted(set(sys.modules) - before)
print(json.dumps(found))
"""


def hooks_of(plugin):
    declared = tomllib.loads((plugin / "pyproject.toml").read_text(encoding="utf-8"))
    return declared["project"].get("entry-points", {}).get("servekit", {}).values()


@pytest.fixture(scope="module")
def imported():
    """What the hooks of each plugin import, by module; each in turn, in one process."""
    names = [name for each in sorted(PLUGINS.glob("servekit-*")) for name in hooks_of(each)]
    command = [sys.executable, "-c", IMPORTING, *names]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=200)
    return json.loads(done.stdout)


def test_hooks_import_nothing_but_servekit(imported):
    """Other libraries are imported by what the hooks return, when it is called."""
    heavy = {
        name: others
        for name, modules in imported.items()
        if (others := [each for each in modules if not each.startswith("servekit")])
    }

    assert heavy == {}


def test_hooks_import_few_modules(imported):
    assert {name: len(each) for name, each in imported.items() if len(each) > 5} == {}
