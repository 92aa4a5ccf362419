# SPDX-License-Identifier: Apache-2.0
"""A damaged archive is refused by one line, or holds exactly what it held before."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from servekit_archiver import ArchiveError, build_archive, open_archive

pytestmark = pytest.mark.slow

QUIET = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture
def small(tree, tmp_path):
    """A small archive: its path, its bytes, its digest."""
    files = {"model.toml": 'service = "s:S"', "s.py": "class S: ...\n" * 9, "é/w.npy": b"\1\2"}
    built = build_archive(tree(tmp_path / "small", files), tmp_path / "small.mar")
    return built.path, built.path.read_bytes(), built.digest


def read(path, content):
    """Return the digest of *content* as an archive, or ``None`` if it is refused."""
    path.write_bytes(content)
    try:
        with open_archive(path) as archive:
            archive.verify()
            return archive.digest
    except ArchiveError as error:
        assert str(error).isprintable()  # noqa: PT017 - any number of refusals is right
        return None


def test_every_truncation_is_refused(small):
    path, content, _ = small

    assert [size for size in range(len(content)) if read(path, content[:size])] == []


def test_no_flipped_bit_ever_changes_the_content_unseen(small):
    path, content, digest = small
    for bit in range(len(content) * 8):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        assert read(path, bytes(flipped)) in (None, digest), f"bit {bit}"


@QUIET
@given(content=st.binary(max_size=300))
def test_any_bytes_are_refused(tmp_path, content):
    assert read(tmp_path / "any.mar", content) is None


@QUIET
@given(data=st.data())
def test_a_piece_cut_out_or_put_in_never_changes_the_content_unseen(small, data):
    path, content, digest = small
    start = data.draw(st.integers(0, len(content)))
    end = data.draw(st.integers(start, min(len(content), start + 80)))
    piece = data.draw(st.binary(max_size=80) | st.just(content[:start][-40:]))

    assert read(path, content[:start] + piece + content[end:]) in (None, digest)
