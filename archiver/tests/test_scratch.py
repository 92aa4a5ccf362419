# SPDX-License-Identifier: Apache-2.0
import tempfile

import pytest
from servekit_archiver.scratch import remove_abandoned, scratch_directory


def test_a_scratch_directory_is_private_and_gone_at_the_end(tmp_path):
    with scratch_directory(tmp_path) as scratch:
        assert scratch.stat().st_mode & 0o777 == 0o700
        (scratch / "file").write_text("x")

    assert list(tmp_path.iterdir()) == []


def test_it_is_gone_after_an_error_too(tmp_path):
    with pytest.raises(KeyboardInterrupt), scratch_directory(tmp_path):
        raise KeyboardInterrupt

    assert list(tmp_path.iterdir()) == []


def test_one_in_use_is_not_abandoned(tmp_path):
    (tmp_path / ".unpacking-old").mkdir()
    (tmp_path / "something-else").mkdir()

    with scratch_directory(tmp_path) as scratch:
        remove_abandoned(tmp_path)
        left = sorted(path.name for path in tmp_path.iterdir())

    assert left == [scratch.name, "something-else"]


def test_a_link_is_not_followed(tmp_path):
    precious = tmp_path / "precious"
    precious.mkdir()
    (tmp_path / ".unpacking-link").symlink_to(precious)

    remove_abandoned(tmp_path)

    assert precious.is_dir()


def test_one_removed_before_it_is_locked_is_made_anew(tmp_path, monkeypatch):
    made = []
    mkdtemp = tempfile.mkdtemp

    def make_and_lose_the_first(**how):
        made.append(mkdtemp(**how))
        if len(made) == 1:
            (tmp_path / made[0]).rmdir()
        return made[-1]

    monkeypatch.setattr("tempfile.mkdtemp", make_and_lose_the_first)
    with scratch_directory(tmp_path) as scratch:
        assert str(scratch) == made[1]
