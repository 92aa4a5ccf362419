# SPDX-License-Identifier: Apache-2.0
"""The hook module: light to import, and its offers exist."""

import pkgutil
import subprocess
import sys

from servekit_image import hooks


def test_importing_the_hook_module_imports_nothing_heavy():
    code = "import servekit_image.hooks, sys; print(*sys.modules)"
    loaded = subprocess.check_output([sys.executable, "-c", code], text=True).split()

    assert not {"numpy", "PIL"} & set(loaded)


def test_every_offer_can_be_imported_and_works_both_ways():
    offers = hooks.register_codecs()

    codecs = [pkgutil.resolve_name(target) for target in offers.values()]
    assert all(callable(codec.decode) and callable(codec.encode) for codec in codecs)
