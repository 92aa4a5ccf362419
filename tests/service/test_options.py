# SPDX-License-Identifier: Apache-2.0
"""What a service reads of its ``[options]``, and the file that it finds."""

import dataclasses
import logging
import re

import msgspec
import pytest

from servekit import Context
from servekit.errors import BootError


class Struct(msgspec.Struct):
    file: str = ""
    size: int = 3


@dataclasses.dataclass
class Dataclass:
    file: str = ""
    size: int = 3


class Outer(msgspec.Struct):
    inner: Struct | None = None
    plain: dict[str, int] = {}


class Needs(msgspec.Struct):
    column: str


def context(directory=None, **options):
    """Return the context of a service with *options*."""
    return Context(
        model="m", version="1.0", directory=directory, replica=0, max_batch_size=32, threads=1,
        options=options, logger=logging.getLogger("m"),
    )  # fmt: skip


@pytest.mark.parametrize("kind", [Struct, Dataclass])
def test_options_are_of_the_type_that_lists_them(kind):
    assert context(size=4).read_options(kind) == kind(size=4)


@pytest.mark.parametrize("kind", [Struct, Dataclass])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"szie": 4}, "[options] szie: unknown option, did you mean size?"),
        ({"x": 4}, "[options] x: unknown option; known: file, size"),
        ({"size": "4"}, "[options] size: Expected `int`, got `str`"),
    ],
)
def test_wrong_options_are_named(kind, options, message):
    with pytest.raises(BootError, match=re.escape(message)):
        context(**options).read_options(kind)


def test_wrong_options_in_a_table_are_named_with_it():
    assert context(inner={"size": 4}, plain={"x": 1}).read_options(Outer).inner == Struct(size=4)
    with pytest.raises(BootError, match=re.escape("[options.inner] szie: unknown option, did you")):
        context(inner={"szie": 4}).read_options(Outer)
    with pytest.raises(
        BootError, match=r"^\[options.inner\] size: Expected `int`, got `str`$"
    ) as found:
        context(inner={"size": "x"}).read_options(Outer)
    assert found.value.__cause__ is None  # the log has the message alone


def test_a_missing_option_is_named():
    with pytest.raises(BootError, match="missing required field `column`"):
        context().read_options(Needs)


@pytest.fixture
def files(tmp_path):
    for name in ("a.x", "b.y", "c.y", "folder/d.x"):
        path = tmp_path / "model" / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.touch()
    (tmp_path / "outside.x").touch()
    return tmp_path / "model"


@pytest.mark.parametrize(
    ("suffixes", "file", "found"),
    [
        ([".x"], "", "a.x"),
        ([".x", ".z"], "", "a.x"),
        ([".y"], "c.y", "c.y"),
        ([".y"], "folder/d.x", "folder/d.x"),
    ],
)
def test_the_file_is_the_one_named_or_the_only_one(files, suffixes, file, found):
    assert context(files).find_file(*suffixes, file=file) == files / found


@pytest.mark.parametrize(
    ("suffixes", "file", "message"),
    [
        ([".y"], "", "needed unless there is exactly one .y; b.y, c.y"),
        ([".x", ".y"], "", "needed unless there is exactly one .x or .y; a.x, b.y, c.y"),
        ([".z"], "", "needed unless there is exactly one .z; there is none"),
        ([".x"], "no.x", "'no.x' is not in the archive"),
        ([".x"], "folder", "'folder' is not in the archive"),
        ([".x"], "../outside.x", "'../outside.x' is not in the archive"),
        ([".x"], "/etc/passwd", "'/etc/passwd' is not in the archive"),
    ],
)
def test_a_file_that_is_not_there_is_said_in_one_line(files, suffixes, file, message):
    with pytest.raises(BootError, match=re.escape(f"[options] file: {message}")):
        context(files).find_file(*suffixes, file=file)
