# SPDX-License-Identifier: Apache-2.0
"""``make docs``: the site builds without a warning, and needs nothing from elsewhere."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOADED = re.compile(r"<(?:script|img|iframe)[^>]* src=\"([^\"]+)|<link[^>]* href=\"([^\"]+)")


@pytest.mark.slow
def test_the_site_builds_and_loads_nothing_from_the_network(tmp_path):
    pytest.importorskip("sphinx", reason="make docs installs it")
    flags = ["--quiet", "--fail-on-warning", "--keep-going", "-c", "docs", "-d", tmp_path / "trees"]
    build = [sys.executable, "-m", "sphinx", *flags, ".", tmp_path / "site"]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False)
    pages = list((tmp_path / "site").rglob("*.html"))
    loaded = {"".join(each) for page in pages for each in LOADED.findall(page.read_text())}

    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "site" / "docs" / "api" / "hookspecs.html") in pages
    assert {url for url in loaded if url.startswith(("http:", "https:", "//"))} == set()
