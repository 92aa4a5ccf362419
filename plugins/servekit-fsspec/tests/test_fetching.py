# SPDX-License-Identifier: Apache-2.0
"""Assets come from fsspec's file systems, whole or from where an attempt ended."""

import hashlib
import subprocess
import sys

import fsspec
import pytest
from servekit_archiver import Asset
from servekit_fsspec import hooks
from servekit_fsspec.fetching import fetch

from servekit.assets.fetchers import find_fetcher
from servekit.assets.fetching import fetch_asset
from servekit.errors import AssetError, StartupError
from servekit.plugins import create_plugin_manager

CONTENT = bytes(range(256)) * 1000
URL = "memory://models/weights.bin"


@pytest.fixture
def asset():
    memory = fsspec.filesystem("memory")
    memory.pipe("/models/weights.bin", CONTENT)
    yield Asset(url=URL, sha256=hashlib.sha256(CONTENT).hexdigest(), size=len(CONTENT))
    memory.rm("/models", recursive=True)


@pytest.mark.parametrize("start", [0, 1, 255_999, 256_000])
def test_content_comes_from_any_place_on(asset, start):
    assert b"".join(fetch(asset.url, start)) == CONTENT[start:]


def test_an_attempt_goes_on_where_the_last_one_ended(asset, tmp_path):
    def broken(url, start):
        yield CONTENT[start : start + 1000]
        raise ConnectionError("cable cut")

    with pytest.raises(AssetError, match="cable cut"):
        fetch_asset(asset, tmp_path, broken, lambda done, total: None)
    steps = []
    path = fetch_asset(asset, tmp_path, fetch, lambda done, total: steps.append((done, total)))

    assert path.read_bytes() == CONTENT
    assert steps == [(len(CONTENT), len(CONTENT))]


@pytest.mark.parametrize("scheme", hooks.SCHEMES)
def test_every_scheme_is_one_that_fsspec_knows(scheme):
    manager = create_plugin_manager(hooks, discover=False)

    assert find_fetcher(f"{scheme}://store/file", manager) is fetch
    assert scheme in fsspec.available_protocols()


def test_a_store_whose_package_is_not_installed_is_named():
    with pytest.raises(StartupError, match="gcsfs"):
        list(fetch("gs://store/file", 0))


def test_the_hook_module_imports_no_file_system():
    code = "import servekit_fsspec.hooks, sys; print('fsspec' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert shown.stdout.strip() == "False"
