# SPDX-License-Identifier: Apache-2.0
"""A command that fills a directory writes all of its files, or none."""

import pytest

from servekit.errors import StartupError
from servekit.extension import draft_directory


def test_files_arrive_when_all_are_written(tmp_path):
    with draft_directory(tmp_path / "new" / "k8s") as draft:
        (draft / "base").mkdir()
        (draft / "base" / "a.yaml").write_text("a")
        assert not (tmp_path / "new" / "k8s").exists()

    assert (tmp_path / "new" / "k8s" / "base" / "a.yaml").read_text() == "a"
    assert [each.name for each in (tmp_path / "new").iterdir()] == ["k8s"]


def fill(directory, *names, force=False):
    """Write files of these names."""
    with draft_directory(directory, force=force) as draft:
        for name in names:
            (draft / name).write_text("new")


def test_nothing_arrives_if_one_cannot_be_written(tmp_path):
    with pytest.raises(StartupError, match="missing/b: No such file"):
        fill(tmp_path / "k8s", "a", "missing/b")

    assert not list(tmp_path.iterdir())


def test_force_overwrites_files_of_the_same_name_and_keeps_others(tmp_path):
    for name in ("mine", "a"):
        (tmp_path / name).write_text("old")
    with pytest.raises(StartupError, match="is not an empty directory"):
        fill(tmp_path, "a")
    fill(tmp_path, "a", force=True)
    found = {each.name: each.read_text() for each in tmp_path.iterdir()}

    assert found == {"mine": "old", "a": "new"}


def test_a_file_is_not_overwritten_by_a_directory(tmp_path):
    (tmp_path / "a").touch()

    with pytest.raises(StartupError, match="a: is not a directory"):
        fill(tmp_path / "a", "b", force=True)
