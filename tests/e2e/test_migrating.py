# SPDX-License-Identifier: Apache-2.0
"""The guides from other servers: what stands under "after" is served and called as written."""

import shutil
import sys
from pathlib import Path

import pytest

from .document import Reader

PAGES = Path(__file__).parents[2] / "docs" / "migrating"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.e2e,
    pytest.mark.skipif(not shutil.which("curl"), reason="the guides use curl"),
]


@pytest.mark.parametrize(
    ("page", "answers"),
    [
        ("from-mosec", 8),
        ("from-octoai", 8),
        ("from-mindspore", 3),
        ("from-torchserve", 8),
        ("from-mms", 8),
        ("from-fastapi", 8),
        ("from-mlserver", 5),
        ("from-litserve", 3),
        ("from-bentoml", 6),
    ],
)
def test_the_service_after_is_the_service_before(tmp_path, page, answers):
    if page == "from-torchserve":
        pytest.importorskip("model_archiver", reason="the guide packs an archive with it")
    reader = Reader(tmp_path, Path(sys.executable).parent)
    compared = reader.follow((PAGES / f"{page}.md").read_text(encoding="utf-8"))

    assert compared == answers
