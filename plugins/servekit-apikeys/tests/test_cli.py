# SPDX-License-Identifier: Apache-2.0
"""``servekit-apikeys new``: the key is shown once, the file gets its digest."""

import stat

import pytest
from servekit_apikeys.cli import main
from servekit_apikeys.keyring import Keyring, digest, read_keys


def new(path, *arguments):
    return main(["new", *arguments, "--file", str(path)])


def test_new_key_opens_what_it_was_made_for(tmp_path, capsys):
    path = tmp_path / "keys.toml"
    statuses = [
        new(path, "ada", "--models", "digits", "faces*", "--rate", "0.5", "--burst", "2"),
        new(path, "bob"),
    ]
    ada, bob = capsys.readouterr().out.split()
    ring = Keyring(read_keys(path))

    assert statuses == [0, 0]
    assert ring.judge(f"Bearer {ada}", "faces-2").name == "ada"
    assert ring.judge(f"Bearer {ada}", "other").status == 403
    assert ring.judge(f"Bearer {bob}", "other").name == "bob"
    assert ada not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["ada"], id="name that is there"),
        pytest.param(["no name"], id="name with a space"),
        pytest.param(["bob", "--models", "a/b"], id="model that cannot be"),
    ],
)
def test_refusal_is_one_line_and_leaves_the_file_as_it_was(tmp_path, capsys, arguments):
    path = tmp_path / "keys.toml"
    new(path, "ada")
    before = path.read_bytes()
    capsys.readouterr()

    assert new(path, *arguments) == 1
    assert capsys.readouterr().err.count("\n") == 1
    assert path.read_bytes() == before


@pytest.mark.parametrize("end", ["", "\n", "\n\n", "  # the last", "\n# the last", "\r\n"])
def test_a_key_is_appended_however_the_file_ends(tmp_path, end):
    path = tmp_path / "keys.toml"
    path.write_bytes(f'[[keys]]\nname = "ada"\nsha256 = "{digest("a")}"{end}'.encode())

    assert new(path, "bob") == 0
    assert [key.name for key in read_keys(path)] == ["ada", "bob"]


@pytest.mark.parametrize("keys", ["", f'{{name = "ada", sha256 = "{digest("a")}"}}'])
def test_a_file_to_which_no_table_can_be_appended_is_left_as_it_was(tmp_path, capsys, keys):
    path = tmp_path / "keys.toml"
    text = f"keys = [{keys}]\n"
    path.write_text(text)

    assert new(path, "bob") == 1
    assert "only if the others are written as [[keys]]" in capsys.readouterr().err
    assert path.read_text() == text


@pytest.mark.parametrize("rate", ["-1", "nan", "many"])
def test_a_rate_that_is_none_is_a_mistake_of_usage(tmp_path, capsys, rate):
    path = tmp_path / "keys.toml"
    with pytest.raises(SystemExit) as ended:
        new(path, "bob", "--rate", rate)

    assert ended.value.code == 2
    assert "argument --rate: " in capsys.readouterr().err
    assert not path.exists()
