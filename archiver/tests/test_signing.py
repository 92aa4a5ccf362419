# SPDX-License-Identifier: Apache-2.0
"""A signature is the last entry of an archive, and changes nothing else of it."""

import pytest
from servekit_archiver import ArchiveError, build_archive, open_archive, write_signed
from servekit_archiver.limits import SIGNATURE_BYTES
from servekit_archiver.names import SIGNATURE

from archiver.tests.forging import Item


def test_files_manifest_and_digest_stay(archive, tmp_path):
    write_signed(archive, tmp_path / "signed.mar", b"signature")

    with open_archive(archive) as plain, open_archive(tmp_path / "signed.mar") as signed:
        signed.verify()
        assert (plain.read_signature(), signed.read_signature()) == (b"", b"signature")
        assert signed.digest == plain.digest
        assert dict(signed.entries) == dict(plain.entries)


def test_a_signature_is_replaced(archive):
    before = archive.read_bytes()
    for text in (b"first", b"second" * 1000, b"third"):
        write_signed(archive, archive, text, force=True)
        with open_archive(archive) as signed:
            assert signed.read_signature() == text

    assert archive.read_bytes().startswith(before[:1000])
    assert len(archive.read_bytes()) < len(before) + 200


def test_the_unsigned_archive_can_be_built_again(archive, tmp_path):
    write_signed(archive, tmp_path / "signed.mar", b"x")
    with open_archive(tmp_path / "signed.mar") as signed:
        signed.extract(tmp_path / "x")

    assert build_archive(tmp_path / "x", tmp_path / "y.mar").path.read_bytes() == (
        archive.read_bytes()
    )


def test_another_file_is_not_replaced_unless_asked(archive, tmp_path):
    (tmp_path / "there").write_text("mine")

    with pytest.raises(ArchiveError, match="already exists"):
        write_signed(archive, tmp_path / "there", b"x")


def test_a_signature_between_other_entries_is_read_and_not_replaced(forge, tmp_path):
    path = forge(Item(SIGNATURE, b"x", listed=False), Item("a", b"a"))

    with open_archive(path) as archive:
        assert archive.read_signature() == b"x"
    with pytest.raises(ArchiveError, match="is not the last entry, so it cannot be replaced"):
        write_signed(path, tmp_path / "signed.mar", b"y")


def test_two_signatures_are_refused(forge):
    two = [Item(SIGNATURE, b"x", listed=False), Item(SIGNATURE, b"y", listed=False)]

    with pytest.raises(ArchiveError, match="clashes with"):
        open_archive(forge(*two))


def test_a_signature_that_the_manifest_lists_is_refused(forge):
    with pytest.raises(ArchiveError, match="MAR-INF"):
        open_archive(forge(Item(SIGNATURE, b"x")))


def test_a_long_signature_is_refused(archive, tmp_path):
    with pytest.raises(ArchiveError, match=f"limit {SIGNATURE_BYTES}"):
        write_signed(archive, tmp_path / "signed.mar", bytes(SIGNATURE_BYTES + 1))


def test_the_limit_is_checked_when_it_is_read(forge):
    path = forge(Item(SIGNATURE, bytes(SIGNATURE_BYTES + 1), listed=False))

    with open_archive(path) as archive, pytest.raises(ArchiveError, match="limit"):
        archive.read_signature()
