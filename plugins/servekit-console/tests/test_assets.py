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


@pytest.mark.parametrize("is_playground", [False, True])
def test_the_scripts_and_styles_of_a_page_are_small(is_playground):
    charts = (
        "uPlot.iife.min.js",
        "uPlot.min.css",
    )  # not in the playground, whose own are nowhere else
    files = [path for path in STATIC.iterdir() if path.suffix in assets.MEDIA_TYPES]
    left_out = [path for path in files if path.name in charts or path.name.startswith("playground")]
    shown = [
        path
        for path in files
        if path not in left_out or path.name.startswith("playground") == is_playground
    ]

    assert sum(len(gzip.compress(path.read_bytes(), 9)) for path in shown) < MOST_BYTES
