# SPDX-License-Identifier: Apache-2.0
"""Tokens as text: whole characters, and nothing of a stop text."""

import pytest
from servekit_huggingface.generation.text_stream import TextStream


class Bytes:
    """A tokenizer whose tokens are bytes."""

    def decode(self, ids, *, skip_special_tokens):
        return bytes(ids).decode("utf-8", "replace")


def written(text, prompt="", stops=()):
    """Return the pieces that the bytes of *text* make, and what is left at the end."""
    stream = TextStream(Bytes(), prompt.encode(), stops)
    pieces = []
    for token in text if isinstance(text, bytes) else text.encode():
        pieces.append(stream.add(token))
        if stream.has_stopped:
            return [piece for piece in pieces if piece], None
    return [piece for piece in pieces if piece], stream.rest()


@pytest.mark.parametrize(
    ("text", "pieces", "rest"),
    [
        pytest.param("abc", ["a", "b", "c"], "", id="letters"),
        pytest.param("é🙂", ["é", "🙂"], "", id="characters of several bytes"),
        pytest.param("a🙂".encode()[:-1], ["a"], "\ufffd", id="a character that is not finished"),
    ],
)
def test_only_whole_characters_are_written(text, pieces, rest):
    assert written(text, "prompt é") == (pieces, rest)


@pytest.mark.parametrize(
    ("stops", "pieces", "rest"),
    [
        pytest.param(["cd"], ["a", "b"], None, id="over two tokens"),
        pytest.param(["cx"], ["a", "b", "cd", "e"], "", id="what only begins like a stop"),
        pytest.param(["def"], ["a", "b", "c"], "de", id="the end is held back"),
        pytest.param(["x", "e"], ["a", "b", "c", "d"], None, id="one of several"),
        pytest.param(["a"], [], None, id="at once"),
    ],
)
def test_nothing_of_a_stop_text_is_written(stops, pieces, rest):
    assert written("abcde", stops=stops) == (pieces, rest)
