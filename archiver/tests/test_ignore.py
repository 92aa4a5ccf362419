# SPDX-License-Identifier: Apache-2.0
import pytest
from servekit_archiver.directory.files import is_ignored


@pytest.mark.parametrize(
    ("pattern", "name", "ignored"),
    [
        ("*.md", "a.md", True),
        ("*.md", "sub/a.md", True),
        ("*.md", "a.mdx", False),
        ("a", "sub/a", True),
        ("/a", "a", True),
        ("/a", "sub/a", False),
        ("sub/*.c", "sub/x.c", True),
        ("sub/*.c", "sub/sub/x.c", False),
        ("sub/**/x", "sub/x", True),
        ("sub/**/x", "sub/a/b/x", True),
        ("**/x", "a/x", True),
        ("raw/", "raw", False),
        ("[ab]", "b", True),
        ("A", "a", False),
    ],
)
def test_a_pattern_matches_files(pattern, name, ignored):
    assert is_ignored(name, False, [pattern]) is ignored


def test_a_pattern_with_a_slash_at_its_end_matches_folders_only():
    assert is_ignored("raw", True, ["raw/"])
    assert is_ignored("sub/raw", True, ["raw/"])
