# SPDX-License-Identifier: Apache-2.0
"""Where settings come from, which source wins, and what is refused."""

import pytest

from servekit.settings import Settings, SettingsError, load_settings, options, size


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1024", 1024), ("10MiB", 10 * 2**20), ("10MB", 10**7), ("1.5k", 1536), ("2 GiB", 2**31),
        ("64K", 65536), ("7B", 7),
    ],
)  # fmt: skip
def test_size(text, expected):
    assert size(text) == expected


@pytest.mark.parametrize("text", ["", "ten", "10XB", "MiB", "-", "1e"])
def test_no_size(text):
    with pytest.raises(ValueError, match=r".*"):
        size(text)


def test_flag_wins_over_variable_over_file_over_default(tmp_path):
    file = tmp_path / "servekit.toml"
    file.write_text('port = 1\nqueue = 2\ngrace = 3\nmodels = ["a.mar", "b=c/d"]\n')
    environment = {"SERVEKIT_PORT": "10", "SERVEKIT_QUEUE": "20", "OTHER": "x"}

    found = load_settings({"port": "100"}, file, environment)

    assert (found.port, found.queue, found.grace, found.host) == (100, 20, 3.0, "127.0.0.1")
    assert found.models == (str(tmp_path / "a.mar"), f"b={tmp_path / 'c/d'}")


REFUSED = {
    "unknown key": ("prot = 1", {}, {}, "unknown key 'prot', did you mean 'port'"),
    "port too high": ("port = 70000", {}, {}, "port: 70000 is above 65535"),
    "bool is no number": ("port = true", {}, {}, "port"),
    "text is no switch": ("", {"SERVEKIT_STRICT": "yes"}, {}, "SERVEKIT_STRICT"),
    "unknown choice": ("", {}, {"log_format": "xml"}, "--log-format: 'xml' is not one of"),
    "not a size": ("", {"SERVEKIT_MAX_BODY": "big"}, {}, "SERVEKIT_MAX_BODY"),
    "NaN": ("grace = nan", {}, {}, "grace"),
    "models is one text": ("models = 1", {}, {}, "models"),
    "not TOML": ("=", {}, {}, "servekit.toml"),
}


@pytest.mark.parametrize(("text", "env", "flags", "message"), REFUSED.values(), ids=REFUSED)
def test_refusal_names_the_source_and_the_value(tmp_path, text, env, flags, message):
    file = tmp_path / "servekit.toml"
    file.write_text(text)

    with pytest.raises(SettingsError) as refusal:
        load_settings(flags, file, env)

    assert message in str(refusal.value)


def test_every_default_passes_its_own_parser():
    for option in options():
        if not option.is_list and option.default != "":
            assert option.parse(str(option.default)) == option.default


def test_defaults_listen_on_loopback_only():
    assert Settings().host == "127.0.0.1"
