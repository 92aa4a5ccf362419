# SPDX-License-Identifier: Apache-2.0
"""openai's client and ``/v1/completions``."""

import openai
import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


@pytest.mark.parametrize(
    ("model", "prompt", "texts"),
    [
        pytest.param("write", "abc", ["cba"], id="a text"),
        pytest.param("write", ["abc"], ["cba"], id="a list of one text"),
        pytest.param("write", [1, 2], ["[1, 2]"], id="token ids"),
        pytest.param("writes", "abc", ["ABC"], id="a model that returns whole texts"),
        pytest.param("writes", ["a", "b"], ["A", "B"], id="several texts"),
        pytest.param("write", ["abc", "", "d"], ["cba", "", "d"], id="several streams"),
        pytest.param("write", [[1], [2, 3]], ["[1]", "[2, 3]"], id="several streams of token ids"),
        pytest.param("writes", [[1], [2]], ["[1]", "[2]"], id="several lists of token ids"),
    ],
)
def test_prompts(client, model, prompt, texts):
    found = client.completions.create(model=model, prompt=prompt)

    assert (found.object, found.id[:5]) == ("text_completion", "cmpl-")
    assert [choice.text for choice in found.choices] == texts
    assert [choice.index for choice in found.choices] == list(range(len(texts)))


@pytest.mark.parametrize("model", ["writes", "write"])
def test_choices_are_ordered_by_prompt(client, model):
    found = client.completions.create(model=model, prompt=["a", "b"], n=2)

    assert [choice.text.lower() for choice in found.choices] == ["a", "a", "b", "b"]
    assert [choice.index for choice in found.choices] == [0, 1, 2, 3]
    assert (found.usage.prompt_tokens, found.usage.completion_tokens) == (2, 4)


def test_more_choices_than_there_are_slots(client):
    found = client.completions.create(model="write", prompt=["ab", "cd", "ef"], n=5)

    assert [choice.text for choice in found.choices] == ["ba"] * 5 + ["dc"] * 5 + ["fe"] * 5
    assert {choice.finish_reason for choice in found.choices} == {"length"}


@pytest.mark.parametrize("model", ["write", "writes"])
def test_several_prompts_are_streamed(client, model):
    options = {"stream": True, "stream_options": {"include_usage": True}}
    prompts = ["ab", "", "cdefg"]
    *chunks, last = client.completions.create(model=model, prompt=prompts, n=2, **options)
    texts, reasons = [""] * 6, [list[str]() for _ in range(6)]
    for choice in (choice for chunk in chunks for choice in chunk.choices):
        texts[choice.index] += choice.text
        reasons[choice.index] += [choice.finish_reason] if choice.finish_reason else []

    whole = client.completions.create(model=model, prompt=prompts, n=2)
    assert texts == [choice.text for choice in whole.choices]
    assert reasons == [[choice.finish_reason] for choice in whole.choices]
    assert last.usage == whole.usage


def test_the_usage_of_a_stream_is_that_of_all_choices(client):
    options = {"stream": True, "stream_options": {"include_usage": True}}
    prompts = [[1, 2], [3, 4, 5]]
    *_, last = client.completions.create(model="write", prompt=prompts, n=2, **options)

    assert (last.usage.prompt_tokens, last.usage.completion_tokens) == (5, 4)


def test_a_stream(client):
    options = {"stream": True, "stream_options": {"include_usage": True}}
    *chunks, usage = client.completions.create(model="write", prompt="abc", **options)

    assert [chunk.choices[0].text for chunk in chunks] == ["c", "b", "a", ""]
    assert [chunk.choices[0].finish_reason for chunk in chunks] == [None] * 3 + ["length"]
    assert (usage.choices, usage.usage.total_tokens) == ([], 2)


@pytest.mark.parametrize(
    ("model", "prompt", "message"),
    [
        pytest.param("writes", [], "expected 1 to 2048, got 0", id="none"),
        pytest.param("writes", ["a"] * 2049, "expected 1 to 2048", id="too many"),
        pytest.param("writes", [1.5], "a string, token ids", id="a number"),
        pytest.param("writes", [["a"]], "a string, token ids", id="nested texts"),
    ],
)
def test_prompts_that_are_refused(client, model, prompt, message):
    with pytest.raises(openai.BadRequestError, match=message) as caught:
        client.completions.create(model=model, prompt=prompt)

    assert caught.value.param == "prompt"


def test_too_many_choices_of_many_prompts(client):
    with pytest.raises(openai.BadRequestError, match="at most 2048 choices") as caught:
        client.completions.create(model="writes", prompt=["a"] * 1000, n=3)

    assert caught.value.param == "n"
