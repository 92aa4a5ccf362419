# SPDX-License-Identifier: Apache-2.0
"""axe-core, which checks how accessible a page is: from npm, and held to its digest."""

from __future__ import annotations

import hashlib
import subprocess
import tarfile
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.browser.driver import Browser

VERSION = "4.10.3"
DIGEST = "0f2b4d7dcdf7d1219df8d1959ad68e565f51d14c3f0d88bb71cd59abeb956292"
SERIOUS = ("serious", "critical")


def axe_script(directory: Path) -> str:
    """Return the source of axe-core, got into *directory*; skip the test if npm fails."""
    path, scratch = directory / f"axe-core-{VERSION}.tgz", directory / "npm"
    if not path.exists():
        scratch.mkdir(exist_ok=True)  # half a file may be left there
        try:
            command = ["npm", "pack", f"axe-core@{VERSION}", "--silent"]
            subprocess.run(command, cwd=scratch, check=True, timeout=240, capture_output=True)
            (scratch / path.name).rename(path)
        except (OSError, subprocess.SubprocessError) as error:
            pytest.skip(f"axe-core cannot be had from npm: {error}")
    content = path.read_bytes()
    assert hashlib.sha256(content).hexdigest() == DIGEST, f"{path} has another content"
    with tarfile.open(path) as archive:
        member = archive.extractfile("package/axe.min.js")
        assert member is not None
        return member.read().decode()


def serious_findings(browser: Browser, script: str) -> list[str]:
    """Return what the *script* of axe finds wrong with the page that *browser* shows."""
    browser.run(script)
    found = browser.run("axe.run().then(result => result.violations)")
    return [
        f"{each['impact']}: {each['help']}: {node['html'][:200]} {node.get('failureSummary', '')}"
        for each in found
        if each["impact"] in SERIOUS
        for node in each["nodes"]
    ]
