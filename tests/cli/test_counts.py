# SPDX-License-Identifier: Apache-2.0
"""One of a thing is not several: in what the commands print, and in the errors."""

import ast
import re
from pathlib import Path

import pytest
import servekit_archiver.counting
from servekit_archiver.cli import main as archive

import servekit.counting

ROOT = Path(__file__).parents[2]
SOURCES = [*ROOT.glob("servekit/**/*.py"), *ROOT.glob("archiver/servekit_archiver/**/*.py")]
#: a number that is not a limit, and a noun in the plural
COUNTED = re.compile(r"(?<!limit )\{\} (?:files|lines|outputs|inputs|problems|items|keys)\b")


def test_the_archiver_says_one_file(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "model.toml").write_text('service = "onnx"\n')
    for words in (["build", "m"], ["verify", "m.mar"], ["extract", "m.mar", "copy"]):
        assert archive(words) == 0
    said = capsys.readouterr().out

    assert said.count("1 file,") == 3
    assert "1 files" not in said


@pytest.mark.parametrize("module", [servekit.counting, servekit_archiver.counting])
def test_counted(module):
    assert [module.counted(n, "byte") for n in (0, 1, 2)] == ["0 bytes", "1 byte", "2 bytes"]


def test_no_message_counts_with_a_fixed_plural():
    trees = (ast.parse(path.read_text(encoding="utf-8")) for path in SOURCES)
    nodes = (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.JoinedStr))

    assert [text for text in map(template, nodes) if COUNTED.search(text)] == []


def template(node: ast.JoinedStr) -> str:
    """Return an f-string with ``{}`` for each value."""
    parts = (part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
    return "".join(map(str, parts))
