# SPDX-License-Identifier: Apache-2.0
"""Names that are meant by others."""

import pytest
from servekit_archiver.spelling import closest


@pytest.mark.parametrize(
    ("word", "known", "meant"),
    [
        ("strat", ["status", "start"], "start"),
        ("rwa", ["raw"], "raw"),
        ("nmae", ["name", "version"], "name"),
        ("deploid", ["deployed"], "deployed"),
        ("--ouput", ["--output"], "--output"),
        ("--max-b", ["--max-body", "--max-header"], "--max-body"),
        ("sha", ["sha256", "url"], "sha256"),
        ("replica", ["replicas"], "replicas"),
    ],
)
def test_a_typing_error_or_the_beginning_of_a_name_is_understood(word, known, meant):
    assert closest(word, known) == meant


@pytest.mark.parametrize(
    ("word", "known"),
    [
        ("nope", ["openai", "onnx"]),
        ("--once", ["--json", "--interval"]),
        ("--hots", ["--json"]),
        ("b", ["a"]),
        ("m1", ["m2"]),
        ("", ["a", "port"]),
        ("explicit", ["replicas"]),
        ("SERVEKIT_FOO", ["SERVEKIT_BAR"]),
        ("name", []),
    ],
)
def test_a_name_that_merely_shares_letters_is_not_suggested(word, known):
    assert closest(word, known) == ""
