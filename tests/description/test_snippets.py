# SPDX-License-Identifier: Apache-2.0
"""What snippets say; ``tests/e2e/test_snippets.py`` runs them."""

import json
import shlex

import pytest

from servekit.description.samples import FilledArray, SampleFile, SampleForm, SampleValue
from servekit.description.snippets import FORMATS, SnippetRequest
from servekit.ipc.response_style import ResponseStyle, StreamStyle

URL = "http://h:1"
NASTY = 'it\'s "$(x)" `y` \\ é\n'
NASTY_SAMPLES = [SampleValue({NASTY: [NASTY]}), SampleFile(f"{NASTY}.png", "image/png")]


def call(sample, path="/m/predict", **how):
    return SnippetRequest(server=URL, path=path, sample=sample, **how)


@pytest.mark.parametrize(
    "sample", [SampleValue({NASTY: [NASTY]}), SampleFile(f"{NASTY}.png", "image/png")]
)
def test_nothing_in_an_input_leaves_its_quotes_in_a_shell(sample):
    words = shlex.split(FORMATS["curl"](call(sample)).replace(" \\\n", " "))

    assert len(words) == 6
    if isinstance(sample, SampleValue):
        assert json.loads(words[5]) == sample.value
    else:
        assert words[5] == f"@{sample.path}"


@pytest.mark.parametrize(
    "sample", [SampleValue({NASTY: [NASTY]}), SampleFile(f"{NASTY}.png", "image/png")]
)
def test_nothing_in_an_input_leaves_its_quotes_in_python(sample):
    compile(FORMATS["python"](call(sample)), "snippet.py", "exec")


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("curl", "[[[0.5] * 224] * 224] * 3"),
        ("python", "np.full((3, 224, 224), 0.5, 'float32')"),
        ("javascript", "Array(3).fill(Array(224).fill(Array(224).fill(0.5)))"),
    ],
)
def test_a_large_array_is_not_written_out(name, shown):
    text = FORMATS[name](call(SampleValue({"x": FilledArray("float32", (3, 224, 224), 0.5)})))

    assert shown in text
    assert len(text) < 500


def test_nothing_in_a_form_leaves_its_quotes_in_a_shell():
    form = SampleForm({"file": f"{NASTY}.png"}, {NASTY: NASTY}, {NASTY: NASTY})
    words = shlex.split(FORMATS["curl"](call(form)).replace(" \\\n", " "))

    assert words[2:] == ["-F", f"file=@{NASTY}.png", "--form-string", f"{NASTY}={NASTY}"]
    compile(FORMATS["python"](call(form)), "snippet.py", "exec")


def test_a_picture_is_written_to_a_file_in_a_shell():
    words = shlex.split(FORMATS["curl"](call(SampleValue(1), file="prediction.png")))

    assert words[words.index("-o") + 1] == "prediction.png"


@pytest.mark.parametrize(
    ("path", "target"),
    [("/m/predict", "'m'"), ("/v1/predict/x", "'/v1/predict/x'"), ("/a", "'/a'")],
)
def test_the_client_calls_a_model_by_its_name_and_any_other_path_by_itself(path, target):
    assert f"client.predict({target}, item)" in FORMATS["python"](call(SampleValue(1), path))


OTHER = ResponseStyle(True, StreamStyle(end="[DONE]", raw=True, field="stream"))


@pytest.mark.parametrize(
    ("name", "how", "shown"),
    [
        ("curl", {"streams": True}, '"stream":true'),
        ("javascript", {"streams": True}, 'JSON.stringify({"x": 1, "stream": true})'),
        ("javascript", {"streams": True}, 'data !== undefined && data !== "[DONE]"'),
        ("javascript", {}, "JSON.stringify(await response.json())"),
        ("python", {"streams": True}, "client.stream('m', item, raw=True, end='[DONE]')"),
        ("python", {}, "client.predict('m', item, envelope=False)"),
        ("python", {"instances": True}, "client.instances('m', [item], envelope=False)"),
    ],
)
def test_a_path_is_called_as_its_responses_are_written(name, how, shown):
    assert shown in FORMATS[name](call(SampleValue({"x": 1}), style=OTHER, **how))


def test_a_stream_without_a_body_that_is_an_object_is_asked_for_by_accept():
    assert "Accept: text/event-stream" in FORMATS["curl"](
        call(SampleValue("x"), style=OTHER, streams=True)
    )
