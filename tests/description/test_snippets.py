# SPDX-License-Identifier: Apache-2.0
"""What snippets say; ``tests/e2e/test_snippets.py`` runs them."""

import json
import shlex

import pytest

from servekit.description.samples import File, Filled, Value
from servekit.description.snippets import FORMATS

URL = "http://h:1"
NASTY = 'it\'s "$(x)" `y` \\ é\n'


@pytest.mark.parametrize("sample", [Value({NASTY: [NASTY]}), File(f"{NASTY}.png", "image/png")])
def test_nothing_in_an_input_leaves_its_quotes_in_a_shell(sample):
    words = shlex.split(FORMATS["curl"]("m", URL, sample).replace(" \\\n", " "))

    assert len(words) == 6
    if isinstance(sample, Value):
        assert json.loads(words[5]) == sample.value
    else:
        assert words[5] == f"@{sample.path}"


@pytest.mark.parametrize("sample", [Value({NASTY: [NASTY]}), File(f"{NASTY}.png", "image/png")])
def test_nothing_in_an_input_leaves_its_quotes_in_python(sample):
    compile(FORMATS["python"]("m", URL, sample), "snippet.py", "exec")


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("curl", "[[[0.5] * 224] * 224] * 3"),
        ("python", "np.full((3, 224, 224), 0.5, 'float32')"),
        ("javascript", "Array(3).fill(Array(224).fill(Array(224).fill(0.5)))"),
    ],
)
def test_a_large_array_is_not_written_out(name, shown):
    text = FORMATS[name]("m", URL, Value({"x": Filled("float32", (3, 224, 224), 0.5)}))

    assert shown in text
    assert len(text) < 500
