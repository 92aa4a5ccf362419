# SPDX-License-Identifier: Apache-2.0
"""A user without an account gets a home and a name, and any other user keeps their own."""

import os
import pwd
import stat
import tempfile

import pytest

from servekit.system.account import complete_account

USER = os.geteuid()


@pytest.fixture
def nameless(monkeypatch, tmp_path):
    """Have this user no account, and a TMPDIR of the test."""

    def find(user):
        raise KeyError(user)

    monkeypatch.setattr(pwd, "getpwuid", find)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_an_account_stays_as_it_is():
    environment = {}
    complete_account(environment)

    assert environment == {}


@pytest.mark.parametrize("given", [{}, {"HOME": "/no-such-place"}])
def test_a_user_without_an_account_gets_a_private_home_and_a_name(nameless, given):
    environment = dict(given)
    complete_account(environment)
    complete_account(environment | given)  # another process finds the same home

    home = nameless / f"servekit-home-{USER}"
    assert environment == {"HOME": str(home), "USER": str(USER), "LOGNAME": str(USER)}
    assert stat.S_IMODE(home.stat().st_mode) == 0o700


def test_a_home_that_can_be_written_to_is_kept(nameless, tmp_path):
    environment = {"HOME": str(tmp_path), "USER": "ada"}
    complete_account(environment)

    assert environment == {"HOME": str(tmp_path), "USER": "ada", "LOGNAME": str(USER)}


def test_a_home_that_others_can_write_to_is_not_taken(nameless):
    home = nameless / f"servekit-home-{USER}"
    home.mkdir()
    home.chmod(0o777)
    environment = {}
    complete_account(environment)

    assert "HOME" not in environment
