# SPDX-License-Identifier: Apache-2.0
"""The reference pages are what the code says."""

from pathlib import Path

import pytest

from docs.reference import PAGES
from servekit.cli.parsing.options import default_of, describe
from servekit.settings import load_settings, options

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("name", PAGES)
def test_page_is_up_to_date(name):
    written = (DOCS / name).read_text(encoding="utf-8")

    assert written == PAGES[name](), "run: python docs/reference.py"


@pytest.mark.parametrize("option", options(), ids=lambda option: option.name)
def test_default_reads_back(option):
    shown = default_of(option)
    given = {option.name: shown} if shown else {}

    assert getattr(load_settings(given, environment={}), option.name) == option.default


def test_help_names_unit_and_default():
    (max_body,) = [option for option in options() if option.name == "max_body"]

    assert describe(max_body) == "largest request body (bytes, default 10MiB)"
