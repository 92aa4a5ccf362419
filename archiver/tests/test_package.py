# SPDX-License-Identifier: Apache-2.0
import subprocess
import sys

import pytest
import servekit_archiver
from servekit_archiver import version

HEAVY = ("tqdm", "pluggy", "importlib.metadata", "zlib", "tomllib", "tempfile")


def test_every_public_name_is_there():
    assert [
        name for name in servekit_archiver.__all__ if not hasattr(servekit_archiver, name)
    ] == []
    assert set(servekit_archiver._HOME) < set(servekit_archiver.__all__)
    assert set(servekit_archiver.__all__) <= set(dir(servekit_archiver))


def test_another_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        servekit_archiver.nothing  # noqa: B018


@pytest.mark.parametrize(
    ("module", "allowed"),
    [
        ("servekit_archiver", ()),
        ("servekit_archiver.manifest.manifest", ()),
        ("servekit_archiver.directory.model_directory", ("tomllib",)),
        ("servekit_archiver.cache.unpack", ("zlib", "tempfile")),
    ],
)
def test_importing_is_cheap(module, allowed):
    code = f"import sys, {module}; print(*(name for name in {HEAVY!r} if name in sys.modules))"

    how = {"capture_output": True, "text": True, "check": True}
    path = {"PYTHONPATH": ":".join(sys.path)}
    loaded = subprocess.run([sys.executable, "-S", "-c", code], env=path, **how).stdout.split()

    assert set(loaded) <= set(allowed)


def test_the_version_is_that_of_the_distribution():
    metadata = pytest.importorskip("importlib.metadata")

    assert version.__version__ == metadata.version("servekit-archiver")
