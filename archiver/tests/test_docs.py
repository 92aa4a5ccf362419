# SPDX-License-Identifier: Apache-2.0
"""What the pages say is what the code does."""

import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
from servekit_archiver import Limits, Manifest
from servekit_archiver.archive.builder import STORED_SUFFIXES
from servekit_archiver.cli import main
from servekit_archiver.directory.files import ALWAYS
from servekit_archiver.manifest.record import TableOf
from servekit_archiver.version import FORMAT

README = Path(__file__).parents[1] / "README.md"
PAGE = Path(__file__).parents[2] / "docs" / "archive-format.md"


def keys(record):
    for spec in fields(record):
        yield spec.name
        if isinstance(spec.metadata["kind"], TableOf):
            yield from keys(spec.metadata["kind"].record)


@pytest.mark.parametrize("name", sorted(set(keys(Manifest))))
def test_every_key_is_documented(name):
    assert re.search(rf"`\[*{name}\]*`", PAGE.read_text())


@pytest.mark.parametrize("suffix", STORED_SUFFIXES)
def test_every_kind_of_file_that_is_stored_is_documented(suffix):
    assert f"`{suffix}`" in PAGE.read_text()


@pytest.mark.parametrize("pattern", [p for p in ALWAYS if not p.endswith("_cache")])
def test_every_file_that_stays_out_is_documented(pattern):
    assert f"`{pattern}`" in PAGE.read_text()


def test_the_limits_are_documented():
    limits, text = Limits(), " ".join(PAGE.read_text().split())
    sizes = f"{limits.file_bytes >> 30} GiB a file, {limits.total_bytes >> 30} GiB in all"

    assert (
        f"At most {limits.entries:,} entries, {sizes}; above 1 MiB, at most {limits.ratio} " in text
    )
    assert f"Format version {FORMAT}." in text


def test_the_readme_works(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = README.read_text()
    commands = re.findall(r"^    servekit-archive (.*?)(?: *#.*)?$", text, re.MULTILINE)
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)

    assert [main(command.split()) for command in commands] == [0] * len(commands)
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
