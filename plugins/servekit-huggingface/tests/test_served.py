# SPDX-License-Identifier: Apache-2.0
"""transformers directories behind a running server, as clients of OpenAI and others use them."""

import io
import json
import re
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic

import pytest

pytest.importorskip("torch")
openai = pytest.importorskip("openai")

from servekit_huggingface.library import transformers  # noqa: E402

from servekit.testing import ServedModel  # noqa: E402

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
#: runs a script with the transformers of the services, which needs no working torchvision
TRAIN = """
import runpy, sys, servekit_huggingface.library
sys.argv.pop(0)
runpy.run_path(sys.argv[0], run_name="__main__")
"""
EXAMPLE = Path(__file__).parents[3] / "examples" / "alice-chat"
SAID = ["once upon a time", "the lazy dog", "a small model that knew very few words", "rain"]


@pytest.fixture(scope="module")
def served(tiny, tmp_path_factory):
    """Return a server with a model of each kind."""
    top = tmp_path_factory.mktemp("huggingface")
    for name in ("chat", "words", "vectors", "moods", "pets"):
        (top / name).mkdir()
    tiny.save_generator(top / "chat", "llama", template=tiny.TEMPLATE)
    tiny.save_generator(top / "words", "gpt2")
    tiny.save_bert(top / "vectors", "BertModel")
    tiny.save_bert(top / "moods", "BertForSequenceClassification")
    tiny.save_vit(top / "pets")
    (top / "chat" / "model.toml").write_text("[batching]\nmax_batch_size = 4\n")
    with ServedModel(*sorted(top.iterdir()), predict_timeout=30) as server:
        yield server.wait_ready()


@pytest.fixture(scope="module")
def client(served):
    with openai.OpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0) as client:
        yield client


def say(client, text, **options):
    messages = [{"role": "user", "content": text}]
    return client.chat.completions.create(model="chat", messages=messages, **options)


def streamed(client, text, **options):
    """Return the text, the finish reason and the usage of a stream."""
    chunks = list(say(client, text, stream=True, stream_options={"include_usage": True}, **options))
    choices = [choice for chunk in chunks for choice in chunk.choices]
    pieces = [choice.delta.content for choice in choices if choice.delta.content]
    return pieces, choices[-1].finish_reason, chunks[-1].usage


def test_an_answer_comes_in_pieces(client):
    pieces, reason, usage = streamed(client, SAID[0], max_tokens=12)

    assert len(pieces) > 3
    assert (reason, usage.completion_tokens) == ("length", 12)
    assert usage.total_tokens == usage.prompt_tokens + 12


def test_many_clients_at_once_get_what_each_gets_alone(client):
    asked = [(text, limit) for text in SAID for limit in (3, 9, 20)]
    alone = [say(client, text, max_tokens=limit) for text, limit in asked]
    with ThreadPoolExecutor(len(asked)) as threads:
        together = [*threads.map(lambda each: streamed(client, each[0], max_tokens=each[1]), asked)]

    for whole, (pieces, reason, usage) in zip(alone, together, strict=True):
        choice = whole.choices[0]
        assert "".join(pieces) == choice.message.content
        assert reason == choice.finish_reason
        assert usage == whole.usage


def test_a_seed_repeats_an_answer(client):
    one, same, other = (
        say(client, SAID[0], temperature=1, seed=seed, max_tokens=20).choices[0].message.content
        for seed in (1, 1, 2)
    )

    assert one == same != other


def test_a_completion_goes_on_with_the_prompt(client, served, tiny):
    found = client.completions.create(model="words", prompt="once upon", max_tokens=6)
    tokenizer = tiny.tokenizer()
    limited = client.completions.create(model="words", prompt=tokenizer("once")["input_ids"])

    assert found.choices[0].finish_reason == "length"
    assert found.usage.prompt_tokens == len(tokenizer("once upon")["input_ids"])
    assert limited.usage.completion_tokens <= 16


def test_each_of_several_choices_is_drawn_for_itself(client):
    found = say(client, SAID[0], temperature=1, n=3, max_tokens=20)

    assert [choice.index for choice in found.choices] == [0, 1, 2]
    assert len({choice.message.content for choice in found.choices}) > 1


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        pytest.param({"max_tokens": 0}, "max_tokens", id="no tokens"),
        pytest.param({"temperature": 9}, "temperature", id="too hot"),
        pytest.param({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools",
                     id="tools"),
    ],
)  # fmt: skip
def test_what_a_model_cannot_do_is_a_bad_request(client, options, reason):
    with pytest.raises(openai.BadRequestError, match=reason):
        say(client, "a", **options)


def open_streams(served):
    found = re.findall(
        r'servekit_streams_open\{[^}]*model="chat"[^}]*\} (\d+)',
        served.get("/metrics").body.decode(),
    )
    return sum(map(int, found))


def test_a_client_that_leaves_makes_room(client, served):
    forever = {"max_tokens": 40, "logit_bias": {"0": -100}, "stream": True}
    streams = [say(client, text, **forever) for text in SAID]
    for stream in streams:
        next(iter(stream))
        stream.close()

    deadline, pause = monotonic() + 60, threading.Event()
    while open_streams(served):
        assert monotonic() < deadline, "streams of clients that have left are still open"
        pause.wait(0.05)
    assert streamed(client, SAID[0], max_tokens=3)[2].completion_tokens == 3


def test_tokens_are_counted(client, served):
    def counted():
        page = served.get("/metrics").body.decode()
        found = re.findall(
            r'model_(prompt|completion)_tokens_total\{.*model="chat".*\} (\S+)', page
        )
        return {name: float(value) for name, value in found}

    before = counted()
    usage = streamed(client, SAID[2], max_tokens=7)[2]
    after = counted()

    assert after["prompt"] - before["prompt"] == usage.prompt_tokens
    assert after["completion"] - before["completion"] == 7


def test_embeddings(client):
    found = client.embeddings.create(model="vectors", input=SAID)
    sizes = [sum(value * value for value in each.embedding) for each in found.data]

    assert sizes == pytest.approx([1.0] * len(SAID), abs=1e-5)
    assert found.usage.prompt_tokens > len(SAID)


def test_labels_of_texts_and_images(served):
    image = pytest.importorskip("PIL.Image")
    file = io.BytesIO()
    image.new("RGB", (20, 30), (200, 30, 40)).save(file, "PNG")
    moods = served.post("/moods/predict", json.dumps(SAID[0]).encode())
    pets = served.post("/pets/predict", file.getvalue(), "image/png")

    assert {each["label"] for each in moods.prediction} == {"LABEL_0", "LABEL_1"}
    assert {each["label"] for each in pets.prediction} == {"cat", "dog", "fox"}
    assert sum(each["probability"] for each in pets.prediction) == pytest.approx(1, abs=1e-5)


def pss(pid, path):
    """Return the kilobytes of the file at *path* in a process, shared ones divided by sharers."""
    found, total = False, 0
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            found = line.endswith(str(path))
        elif found and line.startswith("Pss:"):
            total += int(line.split()[1])
    return total


def test_replicas_map_the_same_weights(tiny, tmp_path):
    directory = tmp_path / "large"
    config = transformers.LlamaConfig(**{**tiny.LLAMA, "hidden_size": 512, "num_hidden_layers": 4})
    transformers.LlamaForCausalLM(config).save_pretrained(directory)
    tiny.tokenizer().save_pretrained(directory)
    path = directory / "model.safetensors"
    size = path.stat().st_size / 1024
    with ServedModel(directory, replicas=2) as server:
        server.wait_ready()
        shares = [pss(server.worker_pid(replica), path) for replica in (0, 1)]

    assert sum(shares) == pytest.approx(size, rel=0.2)
    assert max(shares) < 0.7 * size


def test_the_example_learns_and_streams(tmp_path):
    model = tmp_path / "model"
    subprocess.run(
        [sys.executable, "-c", TRAIN, EXAMPLE / "train.py", "--steps", "40", "--to", model],
        check=True, timeout=240, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    with ServedModel(f"alice-chat={model}") as server:
        server.wait_ready()
        command = [sys.executable, EXAMPLE / "chat.py", "Alice was", server.url.partition("://")[2]]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)

    assert re.search(r"\((stop|length), \d+ tokens\)\n$", done.stdout)
