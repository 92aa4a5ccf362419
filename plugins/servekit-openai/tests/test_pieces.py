# SPDX-License-Identifier: Apache-2.0
"""What becomes of log probabilities, and of NumPy's numbers."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from servekit_openai import AssistantMessage, Completion, Usage
from servekit_openai.envelopes.chat import Chat
from servekit_openai.envelopes.choices import ChoicesState
from servekit_openai.envelopes.completion import Completions

INTERFACE = SimpleNamespace(task="chat", produces=())


def envelope(kind):
    return kind(SimpleNamespace(name="m", version="1", interface=INTERFACE), None)


def whole(kind, output):
    """Return the response with one *output*."""
    request = SimpleNamespace(state=ChoicesState("id", 0, 1))
    return json.loads(envelope(kind).write(request, [output]).body)


def piece(kind, output):
    """Return the choice in the chunk of *output*."""
    request = SimpleNamespace(state=ChoicesState("id", 0, 1, is_stream=True), place=0)
    text = envelope(kind).write_piece(request, output)
    return json.loads(text.removeprefix(b"data: "))["choices"][0]


def chances(value):
    """Return the log probability of a token in both forms."""
    listed = [{"token": "a", "logprob": value, "top_logprobs": [{"token": "a", "logprob": value}]}]
    named = {"tokens": ["a"], "token_logprobs": [value], "top_logprobs": [{"a": value}]}
    return listed, named


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, float])
@pytest.mark.parametrize(("value", "sent"), [(-0.5, -0.5), (-np.inf, -9999.0)])
def test_numbers_of_numpy(kind, value, sent):
    listed, named = chances(kind(value))
    usage = Usage(np.int64(3), np.uint8(200))
    chat = whole(Chat, AssistantMessage(content="a", logprobs=listed, usage=usage))
    text = whole(Completions, Completion(text="a", logprobs=named, usage=usage))

    assert chat["choices"][0]["logprobs"]["content"] == chances(sent)[0]
    assert text["choices"][0]["logprobs"] == chances(sent)[1]
    assert chat["usage"] == text["usage"]
    assert chat["usage"]["total_tokens"] == 203


def test_an_array_of_log_probabilities():
    named = {"tokens": ["a", "b"], "token_logprobs": np.array([-1, -np.inf], np.float32)}
    found = whole(Completions, Completion(text="ab", logprobs=named))

    assert found["choices"][0]["logprobs"]["token_logprobs"] == [-1.0, -9999.0]


def test_pieces_of_a_stream_have_their_log_probabilities():
    listed, named = chances(-0.5)
    chat = piece(Chat, AssistantMessage(logprobs=listed, finish_reason="stop"))
    text = piece(Completions, Completion(logprobs=named, finish_reason="stop"))

    assert chat["logprobs"]["content"] == listed
    assert text["logprobs"] == named


def test_log_probabilities_of_all_pieces_are_joined():
    pieces = [
        Completion(text=each, logprobs={"tokens": [each], "text_offset": [at]})
        for at, each in enumerate("abc")
    ]
    found = whole(Completions, [*pieces, Completion(finish_reason="stop")])["choices"][0]

    assert found["text"] == "abc"
    assert found["logprobs"] == {"tokens": ["a", "b", "c"], "text_offset": [0, 1, 2]}
