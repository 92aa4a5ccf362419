# SPDX-License-Identifier: Apache-2.0
"""Every template of ``init`` builds, passes ``check``, starts and answers."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from servekit_archiver.directory.scaffold import TEMPLATES

from servekit.testing.server import ServedModel

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

PROGRAMS = Path(sys.executable).parent
LIMIT_S = 120
CHAT = {"model": "mine", "messages": [{"role": "user", "content": "Good morning!"}]}
#: path, body and what the answer contains, by template
CALLS = {
    "class": ("/mine/predict", {"name": "Ada"}, "Hello, Ada!"),
    "typed": ("/mine/predict", {"name": "Ada", "times": 2}, "Hello, Ada! Hello, Ada!"),
    "stream": ("/mine/predict", "once upon", '["ONCE","UPON"]'),
    "pipeline": ("/mine/predict", "the cat saw the dog", '"the":2'),
    "torch": ("/mine/predict", {"numbers": [1, 2, 3, -1]}, '"is_positive":true'),
    "openai": ("/v1/chat/completions", CHAT, '"Good morning!"'),
    "plugin": ("/mine/predict", "Ada", '"Hello, Ada!"'),
}


def run(*words, **variables):
    command = [PROGRAMS / words[0], *words[1:]]
    return subprocess.run(
        command, env=os.environ | variables, check=True, text=True, capture_output=True,
        timeout=LIMIT_S,
    ).stdout  # fmt: skip


def installed(directory, target):
    """Make the plugin in *directory* importable from *target*, as pip would without an index."""
    (target / "servekit_mine").symlink_to(directory / "servekit_mine")
    facts = target / "servekit_mine-0.1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: servekit-mine\nVersion: 0.1.0\n")
    (facts / "entry_points.txt").write_text("[servekit]\nmine = servekit_mine.hooks\n")


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_template_builds_passes_check_starts_and_answers(template, tmp_path):
    needs = {"openai": "servekit_openai", "torch": "torch"}.get(template)
    if needs and importlib.util.find_spec(needs) is None:
        pytest.skip(f"{needs} is not installed")
    directory, variables = tmp_path / "mine", {}
    run("servekit", "init", str(directory), "--template", template)
    if template == "torch":
        run("python", str(directory / "export.py"))
    if template == "plugin":
        (tmp_path / "site").mkdir()
        installed(directory, tmp_path / "site")
        variables = {"PYTHONPATH": str(tmp_path / "site")}
        run("pytest", "-q", str(directory), "--rootdir", str(directory), **variables)
    model = directory / TEMPLATES[template].model
    archive = tmp_path / "mine.mar"
    run("servekit-archive", "build", str(model), "-o", str(archive), **variables)
    run("servekit", "check", str(archive), "--batch-sizes", "1", **variables)

    path, body, expected = CALLS[template]
    with ServedModel(archive, environment=os.environ | variables) as server:
        server.wait_ready()
        answer = server.post(path, json.dumps(body).encode())

    assert answer.status == 200
    assert expected in answer.body.decode().replace('": ', '":').replace('", ', '",')


def test_the_templates_are_listed():
    lines = run("servekit-archive", "init", "--list").splitlines()

    assert [line.split()[0] for line in lines] == list(TEMPLATES)
