# SPDX-License-Identifier: Apache-2.0
"""Files that import PyTorch hold only slow tests: `make test` does not install it."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
IMPORT = re.compile(r"^(?:import|from) (?:torch|transformers|safetensors)\b", re.MULTILINE)
SKIP = re.compile(r"^(?:torch = )?pytest\.importorskip\(\"torch\"\)$", re.MULTILINE)
SLOW = re.compile(r"^pytestmark = .*(?:\n    .*)*?\bpytest\.mark\.slow\b", re.MULTILINE)
FILES = [
    pytest.param(text, id=str(path.relative_to(ROOT)))
    for folder in ("tests", "plugins")
    for path in sorted((ROOT / folder).rglob("test_*.py"))
    if IMPORT.search(text := path.read_text(encoding="utf-8")) or SKIP.search(text)
]


@pytest.mark.parametrize("text", FILES)
def test_files_that_import_pytorch_are_slow_and_skipped_without_it(text):
    assert SKIP.search(text)
    assert SLOW.search(text)
