# SPDX-License-Identifier: Apache-2.0
"""The hook module: light to import, and its offers exist."""

import pkgutil
import subprocess
import sys

from servekit_image import hooks

from servekit.hookspecs import ReadOnly


def test_importing_the_hook_module_imports_nothing_heavy():
    code = "import servekit_image.hooks, sys; print(*sys.modules)"
    loaded = subprocess.check_output([sys.executable, "-c", code], text=True).split()

    assert not {"numpy", "PIL"} & set(loaded)


def test_every_offer_can_be_imported_and_decodes():
    offers = hooks.register_codecs()

    assert all(callable(pkgutil.resolve_name(target).decode) for target in offers.values())


def test_what_is_offered_as_read_only_is_what_does_not_encode():
    offers = hooks.register_codecs()
    read_only = {name for name, target in offers.items() if isinstance(target, ReadOnly)}
    without = {name for name, at in offers.items() if pkgutil.resolve_name(at).encode is None}

    assert read_only == without
