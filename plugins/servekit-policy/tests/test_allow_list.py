# SPDX-License-Identifier: Apache-2.0
"""What the rule ``allowed`` allows."""

from pathlib import Path

import pytest
from servekit_policy.allow_list import AllowRule, is_allowed, read_allow_list

from servekit.errors import PluginError
from servekit.extension import ArchiveInfo

DIGEST, OTHER = "a" * 64, "b" * 64


def archive(name="digits", digest=DIGEST, source="/srv/digits.mar"):
    return ArchiveInfo(
        name=name, version="1.0", source=source, path=Path(source), directory=Path("/cache"),
        manifest={}, digest=digest,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("rule", "known", "expected"),
    [
        pytest.param(AllowRule(), archive(), True, id="an empty rule allows every archive"),
        pytest.param(AllowRule(), archive(digest=""), False, id="but no directory"),
        pytest.param(AllowRule(directories=True), archive(digest=""), True, id="unless it says so"),
        pytest.param(AllowRule(name="dig*"), archive(), True, id="pattern of names"),
        pytest.param(AllowRule(name="dig*"), archive(name="Digits"), False, id="case matters"),
        pytest.param(AllowRule(digest=DIGEST), archive(), True, id="digest"),
        pytest.param(AllowRule(digest=OTHER), archive(), False, id="another digest"),
        pytest.param(
            AllowRule(digest=DIGEST, directories=True), archive(digest=""), False,
            id="a directory has no digest",
        ),
        pytest.param(AllowRule(source="s3://models/*"), archive(), False, id="another place"),
        pytest.param(
            AllowRule(source="s3://models/*"), archive(source="s3://models/a.mar"), True, id="place"
        ),
    ],
)  # fmt: skip
def test_rule(rule, known, expected):
    assert is_allowed([rule], known) is expected


def test_one_rule_is_enough_and_none_refuses_everything():
    assert is_allowed([AllowRule(digest=OTHER), AllowRule(name="digits")], archive())
    assert not is_allowed([], archive())


def test_file(tmp_path):
    path = tmp_path / "policy.toml"
    path.write_text(f"[[allow]]\nname = 'a'\n[[allow]]\ndigest = '{DIGEST}'\n")

    assert read_allow_list(path) == [AllowRule(name="a"), AllowRule(digest=DIGEST)]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param("allow = 1", "array", id="no table"),
        pytest.param("[[allow]]\nnames = 'a'", "names", id="unknown key"),
        pytest.param("[[allow]]\ndigest = 'abc'", "matching regex", id="no digest"),
        pytest.param(
            f'[[allow]]\ndigest = "{DIGEST}\\n"', "matching regex", id="a digest and a newline"
        ),
        pytest.param("[[allow]", "policy.toml", id="not TOML"),
    ],
)
def test_file_that_is_not_an_allow_list_is_refused(tmp_path, text, complaint):
    path = tmp_path / "policy.toml"
    path.write_text(text)

    with pytest.raises(PluginError, match=complaint):
        read_allow_list(path)


def test_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(PluginError, match="No such file"):
        read_allow_list(tmp_path / "policy.toml")
