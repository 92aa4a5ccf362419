# SPDX-License-Identifier: Apache-2.0
import re
from pathlib import Path

import pytest
from servekit_archiver import ArchiveError, file_in
from servekit_archiver.names import find_clashes, is_reserved, name_problem, parents


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "is empty"),
        (".", "contains the part '.'"),
        ("..", "contains the part '..'"),
        ("../x", "contains the part '..'"),
        ("a/../../x", "contains the part '..'"),
        ("a/..", "contains the part '..'"),
        ("a/./b", "contains the part '.'"),
        ("/etc/x", "is an absolute path"),
        ("//tmp/x", "is an absolute path"),
        ("C:\\x", "contains a backslash"),
        ("C:x", "starts with a drive letter"),
        ("..\\x", "contains a backslash"),
        ("a//b", "contains an empty part"),
        ("a/", "contains an empty part"),
        ("a\0b", "contains a control character"),
        ("a\nb", "contains a control character"),
        ("a\x7fb", "contains a control character"),
        ("a\x9bb", "contains a control character"),
        ("a\u2028b", "contains a control character"),
        ("n" * 300, "has a part of 300 bytes, limit 255"),
        ("é" * 128, "has a part of 256 bytes, limit 255"),
        ("a/" * 600 + "b", "is 1201 bytes long, limit 1024"),
        ("a/" * 32 + "b", "is 33 folders deep, limit 32"),
        ("a\udcffb", "is not valid Unicode"),
        ("a/..b.", "has a part that ends in a dot or a space, which Windows removes"),
        ("...", "has a part that ends in a dot or a space, which Windows removes"),
        ("a /b", "has a part that ends in a dot or a space, which Windows removes"),
        ("con", "has the part 'con', a device on Windows"),
        ("a/NUL.tar.gz", "has the part 'NUL.tar.gz', a device on Windows"),
        ("Com1.npy/x", "has the part 'Com1.npy', a device on Windows"),
        ("lpt\xb2", "has the part 'lpt\xb2', a device on Windows"),
        ("aux .py", "has the part 'aux .py', a device on Windows"),
        ("ab:c", "contains :, which has another meaning on Windows"),
        ("a/b?", "contains ?, which has another meaning on Windows"),
        ("<a>", "contains <, which has another meaning on Windows"),
        ("a|b", "contains |, which has another meaning on Windows"),
        ('a"b', 'contains ", which has another meaning on Windows'),
        ("*.py", "contains *, which has another meaning on Windows"),
        ("a\u202egpj.py", "contains an invisible character, U+202E"),
        ("a\u200bb", "contains an invisible character, U+200B"),
        ("\ufeffa", "contains an invisible character, U+FEFF"),
        ("a\u2066b", "contains an invisible character, U+2066"),
    ],
)
def test_a_name_that_could_mean_two_files_is_refused(name, why):
    assert name_problem(name) == why


#: the source is named in ``servekit_archiver.names``; the rest are spaces and format characters
INVISIBLE = [
    *(0x00AD, 0x034F, 0x061C, 0x115F, 0x1160, 0x17B4, 0x17B5, *range(0x180B, 0x1810)),
    *(*range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x2070), 0x2800, 0x3164),
    *(*range(0xFE00, 0xFE10), 0xFEFF, 0xFFA0, *range(0xFFF0, 0xFFFD), 0xFFFE, 0xFFFF, 0xFDD0),
    *(*range(0x1BCA0, 0x1BCA4), 0x1D159, *range(0x1D173, 0x1D17B), 0x16FE4, 0x13441, 0x13442),
    *(*range(0xE0000, 0xE1000), 0x1FFFE, 0x10FFFF),
    *(0x00A0, 0x1680, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000),
]


@pytest.mark.parametrize("place", ["{}", "a{}b", "{}.py", "d/{}/x"])
def test_a_name_with_a_character_that_shows_nothing_is_refused(place):
    accepted = [f"U+{code:04X}" for code in INVISIBLE if not name_problem(place.format(chr(code)))]

    assert not accepted


def test_letters_marks_and_signs_of_any_script_are_accepted():
    text = "été ñandú Ελληνικά кириллица עברית العربية हिन्दी ไทย 한국어 日本語 ꦗꦮ 𓀀 😀 a\u0301 √2"

    assert [word for word in text.split() if name_problem(word)] == []


@pytest.mark.parametrize(
    "name",
    [
        "a",
        "model.toml",
        "a/b/c.npy",
        "..a",
        "a..b",
        "é",
        "console.py",
        "com10",
        "nul_values.txt",
        "a.b.c",
        "日本",
        "a b",
        "n" * 255,
        "-rf",
        "~",
    ],
)
def test_an_ordinary_name_is_accepted(name):
    assert name_problem(name) is None


@pytest.mark.parametrize("name", ["/etc/x", "../x", "a/../../x", "", "C:x", "a\\b", "."])
def test_a_file_that_a_model_names_lies_in_its_directory(name):
    with pytest.raises(ArchiveError, match=re.escape("configFile: ")):
        file_in(Path("model"), name, "configFile")

    assert file_in(Path("model"), "a/b", "configFile") == Path("model/a/b")


@pytest.mark.parametrize(
    ("names", "clash"),
    [
        (["a", "a"], ("a", "a")),
        (["Model.py", "model.py"], ("Model.py", "model.py")),
        (["caf\u00e9", "cafe\u0301"], ("caf\u00e9", "cafe\u0301")),
        (["stra\u00dfe", "STRASSE"], ("stra\u00dfe", "STRASSE")),
        (["a", "a/b"], ("a", "a/b")),
        (["a/b", "a"], ("a", "a")),
        (["A", "a/b"], ("A", "a/b")),
        (["A/x", "a/y"], ("A", "a/y")),
    ],
)
def test_names_that_some_system_takes_for_one_clash(names, clash):
    assert list(find_clashes(names)) == [clash]


def test_files_of_one_folder_do_not_clash():
    assert not list(find_clashes(["a/b/c", "a/b/d", "a/e", "f", "b/a"]))


def test_parents_are_yielded_outermost_first():
    assert list(parents("a/b/c")) == ["a", "a/b"]


@pytest.mark.parametrize("name", ["MAR-INF", "MAR-INF/x", "mar-inf/x"])
def test_the_folder_of_the_format_is_reserved_in_any_case(name):
    assert is_reserved(name)
