# SPDX-License-Identifier: Apache-2.0
"""What a key opens, and how often."""

import pytest
from servekit_apikeys.bucket import Bucket
from servekit_apikeys.keyring import Key, Keyring, digest, read_keys

from servekit.errors import Forbidden, InvalidToken, PluginError, TooManyRequests, Unauthorized
from servekit.extension import Identity

ADA = Key(name="ada", sha256=digest("ada-key"), models=("digits*",))
BOB = Key(name="bob", sha256=digest("bob-key"), rate=2, burst=3)


class Clock:
    """Goes on when it is told to."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.mark.parametrize(
    ("authorization", "model", "refusal"),
    [
        pytest.param("Bearer ada-key", "digits", Identity, id="key that opens the model"),
        pytest.param("bEARER ada-key", "digits-2", Identity, id="scheme in any case"),
        pytest.param("Bearer ada-key", "faces", Forbidden, id="another model"),
        pytest.param(None, "digits", Unauthorized, id="no key"),
        pytest.param("Basic ada-key", "digits", Unauthorized, id="another scheme"),
        pytest.param("Bearer ada-ke", "digits", InvalidToken, id="beginning of a key"),
        pytest.param("Bearer  ada-key", "digits", InvalidToken, id="two spaces"),
        pytest.param("Bearer ", "digits", InvalidToken, id="empty key"),
        pytest.param(f"Bearer {ADA.sha256}", "digits", InvalidToken, id="the digest is no key"),
        pytest.param("Bearer \udc80", "digits", InvalidToken, id="no text"),
    ],
)
def test_judgement(authorization, model, refusal):
    judged = Keyring([ADA, BOB]).judge(authorization, model)

    assert type(judged) is refusal


def test_rate_and_burst():
    clock = Clock()
    ring = Keyring([ADA, BOB], clock)
    burst = [ring.judge("Bearer bob-key", "m") for _ in range(4)]
    others = [ring.judge("Bearer ada-key", "digits") for _ in range(50)]
    clock.now += 0.5
    later = [ring.judge("Bearer bob-key", "m") for _ in range(2)]

    assert [type(each) for each in burst] == [Identity] * 3 + [TooManyRequests]
    assert burst[3].retry_after_s == 1
    assert others == [Identity("ada")] * 50
    assert [type(each) for each in later] == [Identity, TooManyRequests]


def test_what_is_no_prediction_needs_the_key_and_none_of_its_rate():
    ring = Keyring([ADA, BOB], Clock())
    asked = [ring.judge("Bearer bob-key", "m", is_counted=False) for _ in range(50)]

    assert asked == [Identity("bob")] * 50
    assert ring.judge("Bearer bob-key", "m") == Identity("bob")
    assert ring.judge("Bearer eve-key", "m", is_counted=False).status == 401


def test_bucket_holds_no_more_than_its_burst():
    clock = Clock()
    bucket = Bucket(1, 2, clock)
    clock.now += 3600

    assert [bucket.take() for _ in range(3)] == [0, 0, 1]


def test_a_tiny_rate_is_waited_for_long():
    key = Key("slow", digest("slow-key"), rate=1e-320)
    ring = Keyring([key], Clock())
    asked = [ring.judge("Bearer slow-key", "m") for _ in range(2)]

    assert asked[0] == Identity("slow")
    assert (asked[1].status, asked[1].retry_after_s) == (429, 1_000_000_000)


TABLE = "[[keys]]\nname = 'a'\nsha256 = '{}'\n"
TWICE = TABLE.format(ADA.sha256) + TABLE.format(BOB.sha256)
REFUSED = {
    "not TOML": ("keys = ", "Invalid"),
    "unknown field": ("[[keys]]\nname = 'a'\nsha256 = 'x'\nmodel = 'b'", "keys"),
    "no digest": ("[[keys]]\nname = 'a'\nsha256 = 'secret'", "sha256"),
    "a name with a newline": (f'[[keys]]\nname = "a\\n"\nsha256 = "{ADA.sha256}"', "name"),
    "a digest with a newline": (f'[[keys]]\nname = "a"\nsha256 = "{ADA.sha256}\\n"', "sha256"),
    "a rate below nothing": (f"[[keys]]\nname = 'a'\nsha256 = '{ADA.sha256}'\nrate = -1", "rate"),
    "one name twice": (TWICE, "two keys have one name"),
    "not UTF-8": ("\udcff", "utf-8"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "named"), REFUSED.values(), ids=REFUSED)
def test_file_that_is_not_as_it_should_be_is_refused(tmp_path, text, named):
    path = tmp_path / "keys.toml"
    path.write_bytes(text.encode(errors="surrogateescape"))

    with pytest.raises(PluginError, match=named):
        read_keys(path)


def test_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(PluginError, match=r"keys\.toml: No such file"):
        read_keys(tmp_path / "keys.toml")
