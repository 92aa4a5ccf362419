# SPDX-License-Identifier: Apache-2.0
"""``servekit.client`` is ``servekit_client``, or says what to install."""

import subprocess
import sys

import servekit_client

import servekit.client

HIDE = "import sys; sys.modules[{!r}] = None; import servekit.client"


def import_without(module):
    code = HIDE.format(module)
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    ).stderr


def test_it_has_the_same_names():
    assert servekit.client.__all__ == servekit_client.__all__
    for name in servekit_client.__all__:
        assert getattr(servekit.client, name) is getattr(servekit_client, name)


def test_without_the_distribution_it_says_what_to_install():
    assert (
        import_without("servekit_client")
        .strip()
        .endswith(
            "ImportError: servekit.client needs the distribution servekit-client: "
            "pip install servekit-client"
        )
    )


def test_a_distribution_that_is_broken_is_not_called_missing():
    assert "import of httpx halted" in import_without("httpx")
