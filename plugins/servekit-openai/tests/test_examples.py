# SPDX-License-Identifier: Apache-2.0
"""The examples for clients of OpenAI, as their READMEs say."""

import subprocess
import sys
from pathlib import Path

import openai
import pytest

from servekit.testing import ServedModel

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture(scope="module")
def examples():
    with ServedModel(EXAMPLES / "eliza", EXAMPLES / "word-vectors") as server:
        yield server.wait_ready()


@pytest.fixture(scope="module")
def examples_client(examples):
    with openai.OpenAI(base_url=f"{examples.url}/v1", api_key="none", max_retries=0) as client:
        yield client


def talk(client, said, **options):
    messages = [{"role": "system", "content": "listen"}, {"role": "user", "content": said}]
    return client.chat.completions.create(model="eliza", messages=messages, **options)


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ("I need a holiday.", "Why do you need a holiday?"),
        ("I am afraid of my boss", "How long have you been afraid of your boss?"),
        ("42", "Please go on."),
    ],
)
def test_eliza_answers(examples_client, said, answer):
    assert talk(examples_client, said).choices[0].message.content == answer


def test_eliza_stops_where_the_client_says(examples_client):
    found = talk(examples_client, "I need a holiday.", max_tokens=2)

    assert (found.choices[0].message.content, found.choices[0].finish_reason) == (
        "Why do ",
        "length",
    )
    assert found.usage.completion_tokens == 2


def test_a_conversation_in_a_terminal(examples):
    done = subprocess.run(
        [sys.executable, EXAMPLES / "eliza/chat.py", examples.url.partition("://")[2]],
        input="I need a rest.\nbecause\n", capture_output=True, text=True, timeout=240, check=True,
    )  # fmt: skip

    assert done.stdout == "Why do you need a rest?\nIs that the real reason?\n"


def test_texts_that_share_words_lie_close(examples_client):
    texts = ["the cat sat", "the cat sat down", "rain tomorrow"]
    found = examples_client.embeddings.create(model="word-vectors", input=texts, dimensions=64)
    one, close, far = (each.embedding for each in found.data)

    assert len(one) == 64
    assert product(one, one) == pytest.approx(1)
    assert product(one, close) > 0.6 > abs(product(one, far))


def test_token_ids_are_refused(examples_client):
    with pytest.raises(openai.BadRequestError, match="no tokens"):
        examples_client.embeddings.create(model="word-vectors", input=[1, 2])


def product(one, other):
    return sum(a * b for a, b in zip(one, other, strict=True))
