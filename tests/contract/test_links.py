# SPDX-License-Identifier: Apache-2.0
"""Every link between pages leads to a file and a heading; ``docs/index.md`` leads to every page."""

import os
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROSE = ("docs/**/*.md", "*.md", "archiver/*.md", "plugins/*/*.md", "examples/**/*.md")
PAGES = sorted({path for pattern in PROSE for path in ROOT.glob(pattern)})
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)|^\[[^\]]+\]: (\S+)", re.MULTILINE)
REPOSITORY = re.compile(r"https://github\.com/servekit/servekit/(?:blob|tree)/main/")


def prose(page: Path) -> str:
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    """Return the anchors that the headings of *page* have on GitHub."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in headings}


def links(page: Path) -> list[tuple[Path, str]]:
    """Return the targets in the repository: files, and their anchors or ""."""
    found = []
    for match in LINK.finditer(prose(page)):
        target = match[1] or match[2]
        local = REPOSITORY.sub(f"{os.path.relpath(ROOT, page.parent)}/", target)
        if not re.match(r"[a-z]+:", local):
            file, _, anchor = local.partition("#")
            path = page.parent / file if file else page
            found.append((Path(os.path.normpath(path)), anchor))
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for file, anchor in links(page):
        assert file.exists()
        assert not anchor or anchor in anchors(file)


def test_the_index_leads_to_every_page():
    index, design = ROOT / "docs" / "index.md", ROOT / "docs" / "design" / "README.md"
    reached = {file for page in (index, design) for file, _ in links(page)} | {index}

    assert set(PAGES) - reached == {ROOT / "README.md"}
