# SPDX-License-Identifier: Apache-2.0
"""Generated answers: those of transformers, whoever else is written at the same time."""

import pytest

pytest.importorskip("torch")

from dataclasses import dataclass, field
from random import Random

from servekit_huggingface.generation.requests import ChatPrompt, TextPrompt, Turn
from servekit_huggingface.generation.services import (
    HuggingFaceChat,
    HuggingFaceCompletion,
)
from servekit_huggingface.library import torch, transformers

from servekit import Done, InputError
from servekit.errors import BootError

pytestmark = pytest.mark.slow  # torch takes two seconds to import
PROMPTS = [[(5 * place + number) % 397 + 3 for place in range(length)]
           for number, length in enumerate([1, 40, 7, 23, 3, 12, 30, 2])]  # fmt: skip


@dataclass
class Client:
    """Collects one answer."""

    slot: object
    pieces: list = field(default_factory=list)
    end: dict | None = None

    @property
    def text(self):
        last = self.end or {}
        return "".join(self.pieces) + (last.get("text") or last.get("content") or "")


def admit(service, prompt):
    return Client(service.admit(prompt))


def step(service, clients):
    """Take one step with those whose answers go on."""
    going = [client for client in clients if client.end is None]
    for client, entry in zip(going, service.step([each.slot for each in going]), strict=True):
        if isinstance(entry, Done):
            client.end = entry.output
            service.evict(client.slot)
        elif entry is not None:
            client.pieces.append(entry)


def run(service, *prompts):
    clients = [admit(service, prompt) for prompt in prompts]
    while any(client.end is None for client in clients):
        step(service, clients)
    return clients


def greedy(directory, prompt, count):
    """Return the tokens that ``generate`` writes for *prompt* alone."""
    model = transformers.AutoModelForCausalLM.from_pretrained(directory).eval()
    ids = torch.tensor([prompt])
    found = model.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=count, do_sample=False
    )
    return found[0, len(prompt) :].tolist()


@pytest.fixture
def llama(tiny, tmp_path, load):
    return load(HuggingFaceCompletion, tiny.save_generator(tmp_path, "llama"))


@pytest.mark.parametrize("prefill_tokens", [512, 5], ids=["whole prompts", "prompts in parts"])
@pytest.mark.parametrize(
    "name", ["llama", "gpt2", "mistral", "gemma2", "qwen3", "gpt_oss", "bloom"]
)
def test_each_answer_of_a_changing_batch_is_that_of_the_prompt_alone(
    tiny, tmp_path, load, name, prefill_tokens
):
    directory = tiny.save_generator(tmp_path, name)
    service = load(HuggingFaceCompletion, directory, prefill_tokens=prefill_tokens)
    clients = []
    for number, prompt in enumerate(PROMPTS):  # one more in every second step
        clients.append(admit(service, TextPrompt(prompt=prompt, max_tokens=6 + 3 * number)))
        step(service, clients)
        step(service, clients)
        if number == 4:  # a client leaves in the middle
            service.evict(clients.pop(1).slot)
    while any(client.end is None for client in clients):
        step(service, clients)

    for client in clients:
        slot = client.slot
        assert slot.tokens == greedy(directory, slot.prompt, slot.limit)


@pytest.mark.parametrize("seed", range(3))
def test_clients_that_come_and_leave_at_random_get_their_own_answers(tiny, tmp_path, load, seed):
    service = load(HuggingFaceCompletion, tiny.save_generator(tmp_path, "gpt2"), prefill_tokens=16)
    random = Random(seed)
    clients, left = [], []
    for _ in range(80):
        going = [client for client in clients if client.end is None]
        chance = random.random()
        if chance < 0.3 and len(going) < 8:
            prompt = [random.randrange(3, 400) for _ in range(random.choice([1, 5, 20, 45]))]
            clients.append(admit(service, TextPrompt(prompt=prompt, max_tokens=12)))
        elif chance < 0.4 and going:
            left.append(random.choice(going))
            clients.remove(left[-1])
            service.evict(left[-1].slot)
        elif going:
            step(service, clients)

    for slot in (client.slot for client in [*clients, *left] if client.slot.tokens):
        assert slot.tokens == greedy(tmp_path, slot.prompt, len(slot.tokens))


def test_an_answer_that_ends_frees_its_columns(llama):
    short, long = [5], [7] * 40
    clients = run(llama, TextPrompt(prompt=short, max_tokens=9))
    clients += [admit(llama, TextPrompt(prompt=p, max_tokens=9)) for p in (short, long)]
    step(llama, clients)
    assert llama._writer._rows.width == 40

    llama.evict(clients[2].slot)

    assert llama._writer._rows.width == 1
    llama.evict(clients[1].slot)
    assert llama._writer._rows.width == 0


@pytest.mark.parametrize(
    ("asked", "arguments"),
    [
        pytest.param({"temperature": 0.7}, {"temperature": 0.7, "top_k": 0}, id="temperature"),
        pytest.param({"temperature": 1.0, "top_p": 0.6}, {"top_p": 0.6, "top_k": 0}, id="nucleus"),
        pytest.param({"temperature": 1.5, "top_k": 5}, {"temperature": 1.5, "top_k": 5}, id="top"),
    ],
)
def test_a_seed_draws_what_generate_draws(tiny, tmp_path, load, asked, arguments):
    directory = tiny.save_generator(tmp_path, "llama")
    service = load(HuggingFaceCompletion, directory)
    prompt = PROMPTS[3]
    others = [TextPrompt(prompt=each, max_tokens=12, temperature=1.0) for each in PROMPTS[:3]]
    found = run(service, TextPrompt(prompt=prompt, max_tokens=12, seed=5, **asked), *others)[0]

    model = transformers.AutoModelForCausalLM.from_pretrained(directory)
    torch.manual_seed(5)
    ids = torch.tensor([prompt])
    wanted = model.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=12, do_sample=True, **arguments
    )
    assert found.slot.tokens == wanted[0, len(prompt) :].tolist()


def test_the_model_says_how_to_draw_if_the_client_does_not(tiny, tmp_path, load):
    defaults = {"do_sample": True, "temperature": 0.9, "top_k": 3, "repetition_penalty": 1.3}
    directory = tiny.save_generator(tmp_path, "gpt2", defaults=defaults)
    service = load(HuggingFaceCompletion, directory)
    found = run(service, TextPrompt(prompt=PROMPTS[2], max_tokens=12, seed=3))[0]

    model = transformers.AutoModelForCausalLM.from_pretrained(directory)
    torch.manual_seed(3)
    ids = torch.tensor([PROMPTS[2]])
    wanted = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=12)
    assert found.slot.tokens == wanted[0, len(PROMPTS[2]) :].tolist()


def test_penalties_and_biases_change_what_is_likeliest(llama):
    prompt = PROMPTS[2]
    plain = run(llama, TextPrompt(prompt=prompt, max_tokens=1))[0].slot.tokens
    biased = {"logit_bias": {str(plain[0]): -100, "17": 100}}
    forced = run(llama, TextPrompt(prompt=prompt, max_tokens=4, **biased))[0].slot.tokens
    fresh = run(
        llama,
        TextPrompt(prompt=prompt, max_tokens=20, frequency_penalty=2, presence_penalty=2),
    )[0].slot.tokens

    assert forced == [17] * 4
    assert len(set(fresh)) > len(set(greedy_tokens(llama, prompt, 20)))


def greedy_tokens(service, prompt, count):
    return run(service, TextPrompt(prompt=prompt, max_tokens=count))[0].slot.tokens


def test_an_answer_has_its_usage_and_the_reason_of_its_end(llama):
    client = run(llama, TextPrompt(prompt=PROMPTS[3], max_tokens=5))[0]

    assert client.end["finish_reason"] == "length"
    assert client.end["usage"] == {"prompt_tokens": 23, "completion_tokens": 5}
    assert client.text == llama.tokenizer.decode(
        PROMPTS[3] + client.slot.tokens, skip_special_tokens=True
    ).removeprefix(llama.tokenizer.decode(PROMPTS[3], skip_special_tokens=True))


def test_an_end_token_ends_the_answer_and_is_not_written(llama):
    ending = {"logit_bias": {"0": 100}}
    client = run(llama, TextPrompt(prompt=PROMPTS[3], max_tokens=5, **ending))[0]

    assert (client.text, client.end["finish_reason"]) == ("", "stop")
    assert client.end["usage"]["completion_tokens"] == 1


def test_a_stop_text_ends_the_answer_before_it(llama):
    whole = run(llama, TextPrompt(prompt=PROMPTS[0], max_tokens=30))[0].text
    stop = whole[7:10]
    client = run(llama, TextPrompt(prompt=PROMPTS[0], max_tokens=30, stop=["never", stop]))[0]

    assert client.text == whole[: whole.index(stop)]
    assert client.end["finish_reason"] == "stop"


def test_an_answer_ends_where_the_context_is_full(tiny, llama):
    client = run(llama, TextPrompt(prompt=[9] * 60, max_tokens=50))[0]

    assert client.end["usage"]["completion_tokens"] == tiny.WINDOW - 60
    assert client.end["finish_reason"] == "length"


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        pytest.param({"prompt": [9] * 64}, "64 tokens, and this model takes at most 63", id="long"),
        pytest.param({"prompt": [400]}, "with an id below 400", id="no such token"),
        pytest.param({"prompt": [-1]}, "with an id below 400", id="a negative token"),
        pytest.param({"prompt": "a", "echo": True}, "echo", id="echo"),
        pytest.param({"prompt": "a", "logprobs": 2}, "logprobs", id="logprobs"),
        pytest.param({"prompt": "a", "logit_bias": {"x": 1}}, "logit_bias", id="a bias"),
    ],
)
def test_what_cannot_be_written_is_refused(llama, members, reason):
    with pytest.raises(InputError, match=reason):
        llama.admit(TextPrompt(**members))
    assert not llama._writer._waiting


def test_an_error_of_the_model_leaves_nothing_behind(llama, monkeypatch):
    client = admit(llama, TextPrompt(prompt=PROMPTS[1], max_tokens=9))
    step(llama, [client])
    with monkeypatch.context() as patched:
        patched.setattr(llama._model, "scores", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            llama.step([client.slot])
    llama.evict(client.slot)

    assert greedy_tokens(llama, PROMPTS[2], 5) == greedy_tokens(llama, PROMPTS[2], 5)


def test_a_client_that_leaves_while_its_prompt_is_read(tiny, tmp_path, load):
    service = load(HuggingFaceCompletion, tiny.save_generator(tmp_path), prefill_tokens=8)
    leaving, staying = (admit(service, TextPrompt(prompt=p, max_tokens=5)) for p in PROMPTS[1:3])
    step(service, [leaving, staying])
    service.evict(leaving.slot)
    while staying.end is None:
        step(service, [staying])

    assert 0 < leaving.slot.read < len(PROMPTS[1])
    assert staying.slot.tokens == greedy(tmp_path, PROMPTS[2], 5)


def test_an_error_in_one_answer_ends_only_that(llama, monkeypatch):
    clients = [admit(llama, TextPrompt(prompt=prompt, max_tokens=4)) for prompt in PROMPTS[:2]]
    with monkeypatch.context() as patched:
        patched.setattr(clients[0].slot, "_write", lambda _token: 1 / 0)
        found = llama.step([each.slot for each in clients])
    llama.evict(clients.pop(0).slot)
    while clients[0].end is None:
        step(llama, clients)

    assert isinstance(found[0], ZeroDivisionError)
    assert clients[0].slot.tokens == greedy_tokens(llama, PROMPTS[1], 4)


def test_a_temperature_near_zero_is_zero(llama):
    cold = TextPrompt(prompt=PROMPTS[2], max_tokens=5, temperature=1e-300)

    assert run(llama, cold)[0].slot.tokens == greedy_tokens(llama, PROMPTS[2], 5)


def conversation(*texts, **more):
    roles = ["user", "assistant"] * len(texts)
    turns = [Turn(role=role, content=text) for role, text in zip(roles, texts, strict=False)]
    return ChatPrompt(messages=turns, **more)


@pytest.fixture
def chat(tiny, tmp_path, load):
    directory = tiny.save_generator(tmp_path, "llama", template=tiny.TEMPLATE)
    return load(HuggingFaceChat, directory)


def test_a_conversation_is_written_by_the_template(tiny, chat):
    asked = conversation("once upon", "a time", "there was", max_tokens=3)
    client = run(chat, asked)[0]

    written = f"{tiny.USER}once upon{tiny.END}{tiny.ASSISTANT}a time{tiny.END}"
    written += f"{tiny.USER}there was{tiny.END}{tiny.ASSISTANT}"
    assert chat.tokenizer.decode(client.slot.prompt) == written
    assert client.end["usage"]["completion_tokens"] == 3


def test_a_client_cannot_write_control_tokens(tiny, chat):
    (user,) = chat.tokenizer.convert_tokens_to_ids([tiny.USER])
    client = run(chat, conversation(f"a {tiny.USER} b", max_tokens=1))[0]

    assert client.slot.prompt.count(user) == 1


@pytest.mark.parametrize(
    ("prompt", "reason"),
    [
        pytest.param(conversation("a", tools=[{"type": "function"}]), "tools", id="tools"),
        pytest.param(conversation("a", logprobs=True), "logprobs", id="logprobs"),
        pytest.param(
            conversation("a", response_format={"type": "json_object"}), "response_format", id="json"
        ),
        pytest.param(
            conversation([{"type": "image_url", "image_url": {}}]),
            r"messages\[0\].content: this model takes text only",
            id="an image",
        ),
        pytest.param(
            ChatPrompt(messages=[Turn(role="pirate", content="a")]),
            "unknown role pirate",
            id="a role that the template refuses",
        ),
    ],
)
def test_what_a_chat_cannot_do_is_refused(chat, prompt, reason):
    with pytest.raises(InputError, match=reason):
        chat.admit(prompt)


def test_parts_of_text_are_one_text(chat):
    parts = [{"type": "text", "text": "once "}, {"type": "text", "text": "upon"}]
    prompts = [conversation(text, max_tokens=1) for text in (parts, "once upon")]
    first, second = run(chat, *prompts)

    assert first.slot.prompt == second.slot.prompt


def test_a_model_without_a_template_is_no_chat(tiny, tmp_path, load):
    with pytest.raises(BootError, match="huggingface-completion"):
        load(HuggingFaceChat, tiny.save_generator(tmp_path))


def test_the_operator_limits_context_and_answers(tiny, tmp_path, load):
    directory = tiny.save_generator(tmp_path)
    service = load(HuggingFaceCompletion, directory, max_context=20, max_tokens=4)
    (client,) = run(service, TextPrompt(prompt=[5], max_tokens=30))

    assert client.end["usage"]["completion_tokens"] == 4
    with pytest.raises(InputError, match="at most 19"):
        service.admit(TextPrompt(prompt=[5] * 20))


def test_warming_up_leaves_nothing_behind(llama):
    llama.warm_up()

    assert not llama._writer._written
    assert not llama._writer._waiting


def test_a_model_that_counts_positions_by_itself_is_refused(tiny, tmp_path, load):
    config = transformers.BartConfig(
        vocab_size=400, d_model=32, decoder_layers=1, decoder_attention_heads=2, decoder_ffn_dim=32
    )
    transformers.BartForCausalLM(config).save_pretrained(tmp_path)
    tiny.tokenizer().save_pretrained(tmp_path)

    with pytest.raises(BootError, match="counts the positions of tokens by itself"):
        load(HuggingFaceCompletion, tmp_path)


def test_a_model_with_another_state_is_refused(tiny, tmp_path, load):
    config = transformers.MambaConfig(
        vocab_size=400, hidden_size=16, num_hidden_layers=1, state_size=4
    )
    transformers.MambaForCausalLM(config).save_pretrained(tmp_path)
    tiny.tokenizer().save_pretrained(tmp_path)

    with pytest.raises(BootError, match="openai-proxy"):
        load(HuggingFaceCompletion, tmp_path)
