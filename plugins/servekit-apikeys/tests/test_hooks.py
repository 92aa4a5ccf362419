# SPDX-License-Identifier: Apache-2.0
"""The hook is there where a file is named, and nothing is imported before it is called."""

import os
import subprocess
import sys

import pytest


def look(code, **environment):
    """Return what *code* prints about the hook module."""
    kept = {name: text for name, text in os.environ.items() if name != "APIKEYS_FILE"}
    command = [sys.executable, "-c", f"import sys, servekit_apikeys.hooks as hooks; {code}"]
    return subprocess.check_output(command, text=True, env=kept | environment).strip()


@pytest.mark.parametrize(
    ("environment", "there"),
    [
        pytest.param({}, "False", id="no file named"),
        pytest.param({"APIKEYS_FILE": ""}, "False", id="named by nothing"),
        pytest.param({"APIKEYS_FILE": "/k.toml"}, "True", id="file named"),
    ],
)
def test_hook_is_there_only_where_a_file_is_named(environment, there):
    assert look("print(hasattr(hooks, 'authorize'))", **environment) == there


def test_importing_the_hook_module_imports_nothing_heavy():
    loaded = look("print(*sys.modules)", APIKEYS_FILE="/k.toml").split()

    assert not {"numpy", "flask", "gevent", "msgspec", "servekit_apikeys.keyring"} & set(loaded)
