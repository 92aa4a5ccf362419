# SPDX-License-Identifier: Apache-2.0
"""What a policy allows."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from servekit_policy.policy import Rule, judge, read_policy

from servekit.errors import PluginError
from servekit.extension import ArchiveInfo

DIGEST, OTHER = "a" * 64, "b" * 64


def archive(name="digits", digest=DIGEST, source="/srv/digits.mar"):
    return ArchiveInfo(
        name=name, version="1.0", source=source, path=Path(source), directory=Path("/cache"),
        manifest={}, digest=digest,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("rule", "known", "is_allowed"),
    [
        pytest.param(Rule(), archive(), True, id="an empty rule allows every archive"),
        pytest.param(Rule(), archive(digest=""), False, id="but no directory"),
        pytest.param(Rule(directories=True), archive(digest=""), True, id="unless it says so"),
        pytest.param(Rule(name="dig*"), archive(), True, id="pattern of names"),
        pytest.param(Rule(name="dig*"), archive(name="Digits"), False, id="case matters"),
        pytest.param(Rule(digest=DIGEST), archive(), True, id="digest"),
        pytest.param(Rule(digest=OTHER), archive(), False, id="another digest"),
        pytest.param(
            Rule(digest=DIGEST, directories=True), archive(digest=""), False,
            id="a directory has no digest",
        ),
        pytest.param(Rule(source="s3://models/*"), archive(), False, id="another place"),
        pytest.param(
            Rule(source="s3://models/*"), archive(source="s3://models/a.mar"), True, id="place"
        ),
    ],
)  # fmt: skip
def test_rule(rule, known, is_allowed):
    assert (judge([rule], known) is None) is is_allowed


def test_one_rule_is_enough_and_none_refuses_everything():
    assert judge([Rule(digest=OTHER), Rule(name="digits")], archive()) is None
    assert judge([], archive()).reason == f"digits 1.0 (digest {DIGEST}) is not in the policy"
    assert judge([], archive(digest="")).reason.startswith("digits 1.0 (a directory) is not")


def test_file(tmp_path):
    path = tmp_path / "policy.toml"
    path.write_text(f"[[allow]]\nname = 'a'\n[[allow]]\ndigest = '{DIGEST}'\n")

    assert read_policy(path) == [Rule(name="a"), Rule(digest=DIGEST)]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param("allow = 1", "array", id="no table"),
        pytest.param("[[allow]]\nnames = 'a'", "names", id="unknown key"),
        pytest.param("[[allow]]\ndigest = 'abc'", "matching regex", id="no digest"),
        pytest.param("[[allow]", "policy.toml", id="not TOML"),
    ],
)
def test_file_that_is_not_a_policy_is_refused(tmp_path, text, complaint):
    path = tmp_path / "policy.toml"
    path.write_text(text)

    with pytest.raises(PluginError, match=complaint):
        read_policy(path)


def test_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(PluginError, match="No such file"):
        read_policy(tmp_path / "policy.toml")


@pytest.mark.parametrize(("value", "there"), [(None, "False"), ("", "False"), ("/p", "True")])
def test_hook_is_there_only_where_a_policy_is_named(value, there):
    kept = {name: text for name, text in os.environ.items() if name != "POLICY_FILE"}
    environment = kept if value is None else kept | {"POLICY_FILE": value}
    code = "import servekit_policy.hooks as h, sys; print(hasattr(h, 'accept_archive'))"
    code += "; assert not {'msgspec', 'servekit_policy.policy'} & set(sys.modules)"
    shown = subprocess.check_output([sys.executable, "-c", code], text=True, env=environment)

    assert shown.strip() == there
