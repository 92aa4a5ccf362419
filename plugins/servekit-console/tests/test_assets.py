# SPDX-License-Identifier: Apache-2.0
"""The files of other projects are those that they published, and a page stays small."""

import gzip
import hashlib
from pathlib import Path

import pytest
from servekit_console import assets

STATIC = Path(assets.__file__).with_name("static")
DIGESTS = dict(reversed(line.split()) for line in (STATIC / "SHA256SUMS").read_text().splitlines())
MOST_BYTES = 60_000


@pytest.mark.parametrize("name", DIGESTS)
def test_a_file_of_another_project_has_the_digest_that_is_listed(name):
    assert hashlib.sha256((STATIC / name).read_bytes()).hexdigest() == DIGESTS[name]


def test_every_minified_file_is_listed():
    assert {path.name for path in STATIC.glob("*.min.*")} == set(DIGESTS)


OF_OTHERS = ("charts.js", "uPlot", "htmx")
OF_PLAYGROUND = ("playground",)  # which has no use for htmx


@pytest.mark.parametrize("others", [OF_OTHERS, OF_PLAYGROUND], ids=["playground", "other pages"])
def test_what_a_browser_loads_for_a_page_is_small(others):
    files = [path for path in STATIC.iterdir() if path.suffix in assets.MEDIA_TYPES]
    loaded = [path for path in files if not path.name.startswith(others)]

    assert sum(len(gzip.compress(path.read_bytes(), 9)) for path in loaded) < MOST_BYTES
