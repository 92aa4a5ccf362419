# SPDX-License-Identifier: Apache-2.0
"""Archives of 1.x behind a real server: packed in each way, and migrated."""

import re
import subprocess

import pytest

from servekit.testing import ServedModel

from .conftest import BIN, pack, write_handler, write_legacy
from .test_handlers import CLASS

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    top = tmp_path_factory.mktemp("handlers")
    noop = pack(write_handler(top / "noop", CLASS), top / "noop.mar")
    packed = pack(write_handler(top / "gz", CLASS, name="packed"), top / "packed.tar.gz")
    lstm = pack(write_legacy(top / "lstm_ptb"), top / "lstm_ptb.model")
    ours = top / "migrated.mar"
    migrate = [BIN / "servekit", "migrate", str(noop), "-o", str(ours)]
    subprocess.run(migrate, check=True, capture_output=True, timeout=240)
    with ServedModel(noop, packed, f"migrated={ours}", lstm) as server:
        yield server.wait_ready()


def post_form(served, path, heading, content, headers=()):
    """Send a form with one part."""
    form = f"--x\r\nContent-Disposition: form-data; {heading}\r\n\r\n{content}\r\n--x--".encode()
    return served.post(path, form, "multipart/form-data; boundary=x", headers=dict(headers))


def test_archives_are_unpacked_and_answer_under_their_names(served):
    answer = post_form(served, "/lstm_ptb/predict", 'name="data"', '[{"input_sentence": "a"}]')

    assert (answer.status, answer.body) == (200, b'{"prediction":"hello a"}')


@pytest.mark.parametrize(
    "path",
    [
        "/noop/predict",
        "/packed/predict",
        "/migrated/predict",
        "/predictions/noop",
        "/models/noop/invoke",
        "/invocations?model_name=noop",
    ],
)
def test_a_handler_gets_what_the_client_sent(served, path):
    sign = "&" if "?" in path else "?"
    answer = served.post(f"{path}{sign}wish=json", b"\x00", "application/octet-stream")

    assert (answer.status, answer.body) == (200, b"bytearray(b'json')")
    assert answer.content_type == "text/plain"


def test_a_handler_sees_all_headers_but_secrets(served):
    fields = {"X-User": "ada", "Authorization": "Bearer secret"}
    wish = 'name="wish"\r\nContent-Type: text/plain'
    answer = post_form(served, "/predictions/noop", wish, "headers", fields)

    assert b'"x-user":"ada"' in answer.body
    assert b"secret" not in answer.body


def test_what_a_handler_measures_is_in_the_metrics(served):
    served.post("/noop/predict", b"a", "text/plain")
    text = served.get("/metrics").body.decode()

    assert re.search(r'servekit_model_mms_handler_counts_total\{.*name="Wishes".*\} [1-9]', text)
    assert re.search(
        r'servekit_model_mms_handler_values\{.*name="Time_taken".*unit="ms".*\} 1.5', text
    )


def test_models_that_sleep_are_described_and_loaded_by_the_paths_of_mms(tmp_path):
    noop = pack(write_handler(tmp_path / "noop", CLASS), tmp_path / "noop.mar")
    lstm = pack(write_legacy(tmp_path / "lstm_ptb"), tmp_path / "lstm_ptb.model")
    asleep = {"set": ["noop.replicas=0", "lstm_ptb.replicas=0"]}
    with ServedModel(noop, lstm, **asleep) as server:
        server.wait_ready()
        before = server.get("/api-description").json()
        raw = server.post("/predictions/lstm_ptb", b"[{'input_sentence': 'a'}]", "text/plain")
        handled = server.post("/models/noop/invoke?wish=json", b"\x00", "application/octet-stream")
        after = server.get("/api-description").json()

    assert (raw.status, raw.body) == (200, b'"hello a"')
    assert (handled.status, handled.body) == (200, b"bytearray(b'json')")
    assert before == after
