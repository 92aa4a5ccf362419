# SPDX-License-Identifier: Apache-2.0
"""openai's client and ``/v1/chat/completions``."""

import json

import openai
import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


def say(client, text, model="talk", **options):
    messages = [{"role": "system", "content": "be brief"}, {"role": "user", "content": text}]
    return client.chat.completions.create(model=model, messages=messages, **options)


def text_of(chunks):
    return "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)


@pytest.mark.parametrize(
    ("model", "text", "answer"),
    [
        pytest.param("talk", "one two", "one two ", id="pieces are joined"),
        pytest.param("later", "one two", "one two ", id="of an async service"),
        pytest.param("whole", "one two", "ONE TWO", id="whole messages"),
        pytest.param("talk", "silent", None, id="nothing"),
    ],
)
def test_a_whole_message(client, model, text, answer):
    found = say(client, text, model)
    choice = found.choices[0]

    assert (found.object, found.model, found.id[:9]) == ("chat.completion", model, "chatcmpl-")
    assert (choice.index, choice.finish_reason) == (0, "stop")
    assert (choice.message.role, choice.message.content) == ("assistant", answer)
    assert choice.message.tool_calls is None


@pytest.mark.parametrize(
    ("model", "text", "pieces"),
    [
        pytest.param("talk", "one two", ["one ", "two "], id="as they come"),
        pytest.param("later", "one two", ["one ", "two "], id="of an async service"),
        pytest.param("whole", "one two", ["ONE TWO"], id="of a model that returns it whole"),
        pytest.param("talk", "silent", [], id="nothing"),
    ],
)
def test_a_stream(client, model, text, pieces):
    chunks = list(say(client, text, model, stream=True))
    deltas = [chunk.choices[0].delta for chunk in chunks]

    assert [delta.content for delta in deltas if delta.content] == pieces
    assert [delta.role for delta in deltas] == ["assistant"] + [None] * (len(deltas) - 1)
    assert [chunk.choices[0].finish_reason for chunk in chunks][-1] == "stop"
    assert {(chunk.id, chunk.object) for chunk in chunks} == {
        (chunks[0].id, "chat.completion.chunk")
    }
    assert all(chunk.usage is None for chunk in chunks)


@pytest.mark.parametrize("model", ["talk", "whole"])
def test_the_usage_of_a_stream_comes_last(client, model):
    *chunks, last = say(
        client, "one two", model, stream=True, stream_options={"include_usage": True}
    )

    assert all("usage" in chunk.to_dict() and chunk.usage is None for chunk in chunks)
    assert last.choices == []
    assert (last.usage.prompt_tokens, last.usage.completion_tokens) == (4, 2)  # estimates
    assert last.usage.total_tokens == 6


@pytest.mark.parametrize("is_stream", [False, True])
def test_what_the_service_counts_and_why_it_ends(client, is_stream):
    if is_stream:
        chunks = list(say(client, "count", stream=True, stream_options={"include_usage": True}))
        usage, reason = chunks[-1].usage, chunks[-2].choices[0].finish_reason
        thought = chunks[0].choices[0].delta.reasoning_content
    else:
        found = say(client, "count")
        usage, reason = found.usage, found.choices[0].finish_reason
        thought = found.choices[0].message.reasoning_content

    assert (usage.prompt_tokens, usage.completion_tokens, reason) == (7, 3, "length")
    assert thought == "because"


def test_tool_calls(client):
    choice = say(client, "call").choices[0]
    calls = choice.message.tool_calls

    assert choice.finish_reason == "tool_calls"
    assert [call.function.name for call in calls] == ["weather", "time"]
    assert json.loads(calls[0].function.arguments) == {"city": "Rome"}
    assert (calls[0].id[:5], calls[1].id) == ("call_", "call_2")


def test_tool_calls_in_a_stream(client):
    chunks = [chunk.choices[0] for chunk in say(client, "call", stream=True)]
    calls = [call for choice in chunks for call in choice.delta.tool_calls or ()]

    assert [call.index for call in calls] == [0, 0, 1]
    assert [call.function.name for call in calls] == ["weather", None, "time"]
    assert "".join(call.function.arguments for call in calls[:2]) == '{"city": "Rome"}'
    assert chunks[-1].finish_reason == "tool_calls"


def test_the_helper_of_the_client_that_puts_a_stream_together(client):
    messages = [{"role": "user", "content": "call"}]
    with client.chat.completions.stream(model="talk", messages=messages) as stream:
        message = stream.get_final_completion().choices[0].message

    assert [call.function.name for call in message.tool_calls] == ["weather", "time"]


def test_a_message_in_parts_and_a_member_of_the_service(client):
    parts = [{"type": "text", "text": "top"}, {"type": "text", "text": "_k"}]

    assert say(client, parts, extra_body={"top_k": 5}).choices[0].message.content == "5"


def test_choices_of_a_model_that_returns_whole_messages(client):
    found = say(client, "a", "whole", n=3)
    streamed = list(say(client, "a", "whole", n=2, stream=True))

    assert [(each.index, each.message.content) for each in found.choices] == [
        (0, "A"), (1, "A"), (2, "A"),
    ]  # fmt: skip
    assert found.usage.completion_tokens == 3
    assert {chunk.choices[0].index for chunk in streamed} == {0, 1}
    assert text_of(streamed) == "AA"


@pytest.mark.parametrize("model", ["talk", "later"])
def test_choices_of_a_model_that_streams(client, model):
    found = say(client, "a b", model, n=3)

    assert [(each.index, each.message.content) for each in found.choices] == [
        (0, "a b "), (1, "a b "), (2, "a b "),
    ]  # fmt: skip
    assert {each.finish_reason for each in found.choices} == {"stop"}


@pytest.mark.parametrize("model", ["talk", "later"])
def test_the_choices_of_a_stream(client, model):
    options = {"stream": True, "stream_options": {"include_usage": True}}
    *chunks, last = say(client, "a b c d", model, n=2, **options)
    choices = [choice for chunk in chunks for choice in chunk.choices]

    assert {choice.index for choice in choices} == {0, 1}
    for index in (0, 1):
        own = [choice for choice in choices if choice.index == index]
        assert "".join(choice.delta.content or "" for choice in own) == "a b c d "
        assert [choice.delta.role for choice in own] == ["assistant"] + [None] * 4
        assert [choice.finish_reason for choice in own] == [None] * 4 + ["stop"]
    assert {chunk.id for chunk in [*chunks, last]} == {last.id}
    assert (last.choices, last.usage.completion_tokens) == ([], 4)


def test_a_stream_of_choices_ends_once(served):
    body = {"model": "talk", "n": 3, "stream": True}
    body["messages"] = [{"role": "user", "content": "a b"}]
    headers = {"Authorization": "Bearer secret-token", "Content-Type": "application/json"}
    response = served.post("/v1/chat/completions", json.dumps(body).encode(), headers=headers)
    *chunks, last = response.body.decode().split("\n\n")[:-1]

    assert last == "data: [DONE]"
    assert "data: [DONE]" not in chunks
    assert not any(json.loads(chunk.removeprefix("data: ")).get("usage") for chunk in chunks)


@pytest.mark.parametrize(
    ("text", "error"),
    [("refuse", openai.BadRequestError), ("fail", openai.InternalServerError)],
)
def test_a_choice_that_fails_at_once_is_the_error_of_a_stream(client, text, error):
    with pytest.raises(error):
        say(client, text, n=3, stream=True)


def test_a_choice_that_breaks_off_ends_a_stream(client):
    stream = say(client, "break", n=3, stream=True)
    first = next(stream).choices[0].delta.content
    with pytest.raises(openai.APIError, match="broken off"):
        list(stream)

    assert first == "so "
    assert text_of(say(client, "a", n=2, stream=True)) == "a a "


def test_a_client_that_leaves_cancels_all_choices(client):
    for _ in range(3):
        stream = say(client, "forever", n=8, stream=True)
        next(iter(stream))
        stream.close()

    assert say(client, "one").choices[0].message.content == "one "


@pytest.mark.parametrize(
    ("text", "error"),
    [("refuse", openai.BadRequestError), ("fail", openai.InternalServerError)],
)
def test_a_choice_that_fails_is_the_error_of_the_request(client, text, error):
    with pytest.raises(error):
        say(client, text, n=3)

    assert say(client, "a b", n=2).choices[1].message.content == "a b "


@pytest.mark.parametrize(
    ("text", "options"),
    [("break", {}), ("forever", {"X-Request-Timeout-Ms": "4000"})],
    ids=["broken off", "too late"],
)
def test_a_stream_that_breaks_off_is_raised(client, text, options):
    stream = say(client, text, stream=True, extra_headers=options)
    first = next(stream).choices[0].delta.content
    with pytest.raises(openai.APIError, match=r"broken off|Deadline") as caught:
        list(stream)

    assert first in ("so ", "again ")
    assert caught.value.type in ("invalid_request_error", "server_error")


def test_a_client_that_leaves_frees_the_slot(client, served):
    streams = [say(client, "forever", stream=True) for _ in range(2)]  # all slots
    for stream in streams:
        next(iter(stream))
        stream.close()

    assert say(client, "one").choices[0].message.content == "one "
    assert 'servekit_streams_open{model="talk"' in served.get("/metrics").body.decode()


def test_an_asynchronous_client(served):
    import asyncio

    async def ask():
        async with openai.AsyncOpenAI(
            base_url=f"{served.url}/v1", api_key="secret-token"
        ) as client:
            stream = await say(client, "one two", stream=True)
            return text_of([chunk async for chunk in stream])

    assert asyncio.run(ask()) == "one two "


def test_the_native_route_answers_too(served):
    body = b'{"model": "talk", "messages": [{"role": "user", "content": "one"}]}'
    headers = {"Authorization": "Bearer secret-token"}
    response = served.post("/talk/predict", body, headers=headers)

    assert response.prediction == ["one "]
