# SPDX-License-Identifier: Apache-2.0
"""``servekit check``: what it finds, and how it ends."""

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path
from threading import Event
from time import monotonic

import pytest
from servekit_archiver import build_archive

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

WAIT_S = 120.0
SERVICE = """
import os, time
from servekit import Service

class Toy(Service):
    def load(self, context):
        print("loading it", flush=True)
        {load}

    def predict(self, batch):
        {predict}
        return [sum(item["x"]) for item in batch]
"""
TYPED = """
from servekit import Service

class Toy(Service):
    def predict(self, batch: list[list[int]]) -> list[int]:
        return [sum(numbers) for numbers in batch]
"""
EXAMPLE = "[[examples]]\ninput = {x = [1, 2]}\noutput = 3\n"


@pytest.fixture
def model(tmp_path):
    """Write a model directory: what ``load`` and ``predict`` do first, and more of model.toml."""

    def write(toml=EXAMPLE, *, load="pass", predict="pass", service=SERVICE):
        directory = tmp_path / "toy"
        directory.mkdir()
        text = service.replace("{load}", load).replace("{predict}", predict)
        (directory / "service.py").write_text(text)
        (directory / "model.toml").write_text(f'name = "toy"\nservice = "service:Toy"\n{toml}')
        return directory

    return write


def check(*arguments, **variables):
    return subprocess.run(
        [sys.executable, "-m", "servekit.cli", "check", *map(str, arguments)],
        env=os.environ | variables,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )


def test_the_first_size_that_fails_is_the_last_that_is_tried(model):
    done = check(model(EXAMPLE, predict="if len(batch) > 1: 1 / 0"), "--json")

    assert [run["size"] for run in json.loads(done.stdout)["batches"]] == [1, 8]
    assert done.stderr.count("ZeroDivisionError") == 1


def test_a_model_that_is_fine_is_described_and_measured(model, tmp_path):
    archive = tmp_path / "toy.mar"
    build_archive(model("[batching]\nmax_batch_size = 16\n" + EXAMPLE), archive)
    done = check(archive, "--json", "--cache-dir", tmp_path / "cache")
    found = json.loads(done.stdout)

    assert (done.returncode, found["problems"]) == (0, [])
    assert found["loaded"]["service"] == "service.Toy"
    assert 0 < found["loaded"]["proportional_bytes"] <= found["loaded"]["resident_bytes"]
    assert found["loaded"]["resident_bytes"] <= found["peak_bytes"]
    assert [(run["number"], run["problem"]) for run in found["examples"]] == [(1, "")]
    assert [run["size"] for run in found["batches"]] == [1, 8, 16]
    assert all(run["duration_s"] > 0 for run in found["batches"])
    assert "toy | loading it" in done.stderr


@pytest.mark.parametrize(
    ("toml", "service", "rows"),
    [
        pytest.param(
            "[signature]\ninputs = [{ name = 'x', dtype = 'int64', shape = [2] }]\n",
            "from servekit import Service\n\nclass Toy(Service):\n"
            "    def predict(self, batch):\n        return batch['x'].sum(axis=1)\n",
            ["input     x  int64[2]", "no examples", "inputs/s", "toy is fine"],
            id="a signature, and batches of zeros",
        ),
        pytest.param(
            "",
            TYPED,
            [
                "input     list of whole number",
                "output    whole number",
                "inputs/s",
                "toy is fine",
            ],
            id="types, and batches made of them",
        ),
    ],
)
def test_the_page_for_people(model, toml, service, rows):
    done = check(model(toml, service=service))

    assert done.returncode == 0, done.stderr
    assert [row for row in rows if row not in done.stdout] == []


WRONG = EXAMPLE + "\n" + EXAMPLE.replace("output = 3", "output = 4")
LIMIT = "[worker]\npredict_timeout_s = 0.5\nload_timeout_s = 60\n" + EXAMPLE


@pytest.mark.parametrize(
    ("toml", "load", "predict", "status", "told"),
    [
        pytest.param(
            WRONG, "pass", "pass", 1, "toy: example 2: output: 3, expected 4", id="a wrong output"
        ),
        pytest.param(
            EXAMPLE,
            "pass",
            "if len(batch) > 8: 1 / 0",
            1,
            "toy: batch of 32: PredictFailed",
            id="a batch that fails",
        ),
        pytest.param(
            EXAMPLE,
            "pass",
            "os.kill(os.getpid(), 11)",
            1,
            "toy: example 1: the worker exited with -11 (Segmentation fault)",
            id="a crash",
        ),
        pytest.param(
            LIMIT, "pass", "time.sleep(60)", 1, "example 1: not done after 0.5 s", id="a hang"
        ),
        pytest.param(
            EXAMPLE,
            "open('/no/such')",
            "pass",
            3,
            "servekit: toy: FileNotFoundError: [Errno 2] No such file or directory: '/no/such'"
            " (service.py:8)",
            id="a load that raises, with its line",
        ),
        pytest.param(
            EXAMPLE, "os._exit(7)", "pass", 3, "toy: loading: the worker exited with 7", id="exits"
        ),
        pytest.param(
            "size = 3\n",
            "pass",
            "pass",
            3,
            "servekit: toy: model.toml: size: unknown",
            id="refused",
        ),
    ],
)
def test_what_is_wrong_decides_the_status(model, toml, load, predict, status, told):
    done = check(model(toml, load=load, predict=predict))

    assert told in done.stdout + done.stderr
    assert done.returncode == status


@pytest.mark.parametrize(
    ("variable", "load"),
    [
        pytest.param("SERVEKIT_WORKER_FILES", "[open('/dev/null') for _ in 'x' * 200]", id="files"),
        pytest.param("SERVEKIT_WORKER_MEMORY", "bytearray(3 << 30)", id="memory"),
    ],
)
def test_the_limits_of_workers_hold(model, variable, load):
    most = {"SERVEKIT_WORKER_FILES": "100", "SERVEKIT_WORKER_MEMORY": "1GiB"}[variable]
    done = check(model(load=load), **{variable: most})

    assert (done.returncode, "(service.py:8)" in done.stderr) == (3, True)


@pytest.mark.parametrize(
    ("sizes", "status", "told"),
    [
        pytest.param("1,x", 2, "'1,x' is not a list such as 1,8,32", id="no numbers"),
        pytest.param("64", 3, "--batch-sizes: 64 is above the model's limit, 32", id="too large"),
    ],
)
def test_sizes_that_make_no_sense_are_refused(model, sizes, status, told):
    done = check(model(), "--batch-sizes", sizes)

    assert (done.returncode, told in done.stderr) == (status, True)


def test_ctrl_c_ends_it_and_its_worker(model):
    process, terminal = on_terminal(model(load="time.sleep(60)"))
    shown = read_until(terminal, b"loading it")
    process.send_signal(signal.SIGINT)
    status = process.wait(WAIT_S)
    os.close(terminal)

    assert (status, "toy  loading" in shown) == (130, True)
    assert children_of(process.pid) == []


def on_terminal(directory):
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "servekit.cli", "check", str(directory)],
        stdout=theirs,
        stderr=theirs,
        env=os.environ | {"TERM": "xterm", "NO_COLOR": "1"},
    )
    os.close(theirs)
    return process, ours


def read_until(terminal, text):
    shown, deadline = b"", monotonic() + WAIT_S
    while text not in shown:
        assert monotonic() < deadline, f"no {text!r} in {shown!r}"
        shown += os.read(terminal, 4096)
    return shown.decode()


def children_of(parent):
    """Return the checking workers that *parent* started and that still live."""
    deadline, pause = monotonic() + WAIT_S, Event()
    while left := [pid for pid, command in workers().items() if f"\0{parent}\0" in command]:
        assert monotonic() < deadline, f"{left} still live"
        pause.wait(0.02)
    return left


def workers():
    found = {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            command = (place / "cmdline").read_text()
        except OSError:
            continue
        if "servekit.worker.boot.check" in command:
            found[int(place.name)] = command
    return found


STAGED = """
name = "toy"
pipeline = ["double", { stage = "join", inputs = ["request", "double"] }]

[stages.double]
service = "service:Double"

[stages.join]
service = "service:Join"
colocated = "double"

[routes."/v1/doubles"]
steps = [{ stage = "double", each = true }]
"""
SERVICES = """
from servekit import InputError, Service

class Double(Service):
    def predict(self, batch: list[int]) -> list[int]:
        return [2 * each for each in batch]

class Join(Service):
    def predict(self, batch):
        return [each if each["request"] else InputError("nothing") for each in batch]
"""


@pytest.fixture
def staged(tmp_path):
    """Write a model of two stages, with more of its model.toml."""

    def write(toml):
        (tmp_path / "model.toml").write_text(STAGED + toml)
        (tmp_path / "service.py").write_text(SERVICES)
        return tmp_path

    return write


def test_examples_of_a_pipeline_go_all_the_way(staged):
    toml = """
[[examples]]
input = 3
output = { request = 3, double = 6 }

[[examples]]
input = 3
output = { request = 3, double = 7 }

[[examples]]
input = 0
"""
    done = check(staged(toml), "--json")
    found = json.loads(done.stdout)

    assert done.returncode == 1, done.stderr
    assert [stage["stage"] for stage in found["stages"]] == ["double", "join"]
    assert found["pipeline"]["paths"] == {
        "/toy/predict": ["double", "join"],
        "/v1/doubles": ["double"],
    }
    assert [run["problem"] for run in found["pipeline"]["examples"]] == [
        "",
        "output.double: 6, expected 7 (tolerance 1e-06)",
        "422 Input refused: nothing",
    ]
    assert [stage["problems"] for stage in found["stages"]] == [[], []]
    assert [run["size"] for run in found["stages"][0]["batches"]] == [1, 8, 32]
    assert found["stages"][1]["unchecked"] == [
        "predict was not called: its inputs come from other stages"
    ]


def test_the_page_of_a_pipeline_says_what_leads_where(staged):
    done = check(staged(""))

    assert done.returncode == 0, done.stderr
    assert "is fine" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert done.stdout.endswith(
        "toy, all stages\n  /toy/predict  double > join\n  /v1/doubles   double\n\n"
        "the pipeline has no examples\n\nnot checked: toy/join: predict was not called: its "
        "inputs come from other stages\ntoy: no problem in what was checked\n"
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param('["double", {', '[{ model = "other" }, "double", {', id="pipeline"),
        pytest.param("each = true }]", 'each = true }, { model = "other" }]', id="route"),
    ],
)
def test_examples_that_need_another_model_are_not_run(staged, before, after):
    directory = staged("[[examples]]\ninput = 1\n")
    toml = (directory / "model.toml").read_text()
    (directory / "model.toml").write_text(toml.replace(before, after))
    done = check(directory)

    assert done.returncode == 0, done.stderr
    assert "examples not run: a step is another model, other" in done.stdout


def test_a_pipeline_without_stages_has_the_examples_too(model):
    toml = "pipeline = [{ stage = 'predict', each = true }]\n"
    example = "[[examples]]\ninput = [[1, 2], [3]]\noutput = [3, 3]\n"
    done = check(model(toml + example, service=TYPED), "--json")
    found = json.loads(done.stdout)

    assert (done.returncode, found["stages"][0]["examples"]) == (0, []), done.stderr
    assert [run["problem"] for run in found["pipeline"]["examples"]] == [""]


ENDLESS = """
from collections.abc import Iterator

from servekit import Service, endpoint

class Toy(Service):
    def predict(self, batch: list[int]) -> list[int]:
        return batch

    @endpoint(get=True)
    def ticks(self, start: int) -> Iterator[int]:
        while True:
            yield start
            start += 1
"""


ASYNC = ENDLESS.replace("Iterator", "AsyncIterator").replace(" def ", " async def ")
ASYNC = ASYNC.replace("batch: list[int]) -> list[int]", "batch: int) -> int")


@pytest.mark.parametrize("service", [ENDLESS, ASYNC], ids=["plain", "async"])
def test_an_endpoint_that_streams_without_an_end_is_tried_for_a_while(model, service):
    done = check(model("", service=service))

    assert done.returncode == 0, done.stdout + done.stderr
    assert "is fine" in done.stdout


NAMED = """
from servekit import Service

class Toy(Service):
    def predict(self, batch):
        return [{"prediction": sum(item)} for item in batch]
"""
BARE = """
envelope = false
pipeline = ["predict"]

[[examples]]
input = [1, 2]
output = { prediction = 3 }

[[examples]]
input = [1, 2]
output = 3
"""


def test_a_bare_output_is_compared_as_it_is(model):
    done = check(model(BARE, service=NAMED), "--json")

    assert [run["problem"] for run in json.loads(done.stdout)["pipeline"]["examples"]] == [
        "",
        'output: {"prediction":3}, expected 3 (tolerance 1e-06)',
    ]


ANSWERS = """
from servekit import Response, Service

class Toy(Service):
    def predict(self, batch):
        return [Response(**item) for item in batch]
"""
ANSWERED = """
pipeline = ["predict"]

[[examples]]
input = { output = "later", status = 202 }
output = "later"

[[examples]]
input = { output = "no", status = 503, content_type = "text/plain" }

[[examples]]
input = { output = "a,b", content_type = "text/csv" }
output = "a,b"
"""


def test_answers_that_the_service_shapes_are_understood_whatever_is_set_for_clients(model):
    set_for_clients = {"SERVEKIT_PREDICT_TOKEN": "s" * 32, "SERVEKIT_PORT": "1"}
    done = check(model(ANSWERED, service=ANSWERS), "--json", **set_for_clients)

    assert [run["problem"] for run in json.loads(done.stdout)["pipeline"]["examples"]] == [
        "",
        "503, in text/plain",
        "output in text/csv: only JSON is compared",
    ], done.stderr


HEAD = "from typing import Annotated, Literal\nfrom msgspec import Meta\n"
HEAD += "from servekit import InputError, Service, endpoint\n\nclass Toy(Service):\n"


@pytest.mark.parametrize(
    ("body", "status", "told"),
    [
        pytest.param(
            "def predict(self, batch):\n        return batch",
            0,
            "not checked: toy: predict was not called: no example, signature or type says what",
            id="nothing says what an input is",
        ),
        pytest.param(
            "def predict(self, batch: list[int]):\n        return [object() for _ in batch]",
            1,
            "toy: batch of 1: ResultNotEncodable",
            id="an output that is not JSON",
        ),
        pytest.param(
            "def predict(self, batch: list[Literal['a']]):\n        return [batch[1:]] * 2",
            1,
            "toy: batch of 1: WrongBatchLength",
            id="a wrong number of outputs",
        ),
        pytest.param(
            "def predict(self, batch: list[Annotated[str, Meta(pattern='^a$')]]):\n"
            "        return batch",
            0,
            "not checked: toy: predict refuses the input that was made of its types",
            id="an input that only an example can show",
        ),
        pytest.param(
            "def preprocess(self, request):\n        return request.body\n\n"
            "    def predict(self, batch):\n        return batch",
            0,
            "only an example can show what its preprocess takes",
            id="a preprocess",
        ),
        pytest.param(
            "def predict(self, batch: list[int]):\n        return batch\n\n"
            "    @endpoint()\n    def embed(self, batch: list[str]):\n        return None",
            1,
            "toy: endpoint embed: WrongBatchLength",
            id="an endpoint that fails",
        ),
        pytest.param(
            "def predict(self, batch: list[int]):\n        return batch\n\n"
            "    @endpoint()\n    def embed(self, batch):\n        return batch",
            0,
            "not checked: toy: endpoint embed was not called",
            id="an endpoint that says nothing",
        ),
    ],
)
def test_what_was_not_called_is_not_called_fine(model, body, status, told):
    done = check(model("", service=f"{HEAD}    {body}\n"))

    assert done.returncode == status, done.stderr
    assert told in " ".join(done.stdout.split())
    assert "is fine" not in done.stdout
