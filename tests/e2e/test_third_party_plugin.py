# SPDX-License-Identifier: Apache-2.0
"""Pages of the documentation, followed to the letter."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .document import Reader, free_port

ROOT = Path(__file__).parents[2]
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.skipif(not shutil.which("curl"), reason="the documents use curl"),
]


@pytest.mark.timeout(400)
def test_the_plugin_guide_leads_to_a_served_model_in_a_clean_environment(tmp_path):
    clean = tmp_path / "clean"
    subprocess.run([sys.executable, "-m", "venv", clean], check=True)
    reader = Reader(tmp_path, clean / "bin")
    published = {"servekit servekit-archiver": f"{ROOT} {ROOT / 'archiver'}"}
    compared = reader.follow((ROOT / "docs/writing-a-plugin.md").read_text(), published)

    assert compared >= 2


def test_the_quickstart_works_as_written(tmp_path):
    installed = {"python -m pip install": "true"}
    reader = Reader(tmp_path, Path(sys.executable).parent)
    compared = reader.follow((ROOT / "docs/quickstart.md").read_text(), installed)

    assert compared >= 2


def test_the_page_on_securing_a_server_works_as_written(tmp_path):
    reader = Reader(tmp_path, Path(sys.executable).parent)
    page = (ROOT / "docs/securing.md").read_text()
    compared = reader.follow(page, {"8081": free_port(), "python -c": f"{sys.executable} -c"})

    assert compared >= 3
