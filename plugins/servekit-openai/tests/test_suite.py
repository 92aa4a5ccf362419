# SPDX-License-Identifier: Apache-2.0
"""openai-python's own tests against a server: those of the resources that are supported.

``OPENAI_SUITE`` is the path of a folder with its ``tests``, and ``OPENAI_PYTHON``
an interpreter that has ``openai[aiohttp]`` and what its tests need.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from servekit.testing import ServedModel

SUITE = os.environ.get("OPENAI_SUITE", "")
PYTHON = os.environ.get("OPENAI_PYTHON", sys.executable)
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.skipif(not SUITE, reason="OPENAI_SUITE names no folder"),
]
#: the names that the tests use
MODELS = {
    "gpt-5.4": "Talk",
    "gpt-3.5-turbo-instruct": "Write",
    "text-embedding-3-small": "Embed",
    "gpt-4o-mini": "Whole",
}
FILES = ("chat/test_completions.py", "test_completions.py", "test_embeddings.py", "test_models.py")


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    top = tmp_path_factory.mktemp("suite")
    for name, kind in MODELS.items():
        (top / name).mkdir()
        shutil.copy(Path(__file__).parent / "service.py", top / name)
        (top / name / "model.toml").write_text(f'name = "{name}"\nservice = "service:{kind}"\n')
    # the client asks for base64, and a strict one refuses what it has asked for
    with ServedModel(*(top / name for name in MODELS), plugin="openai.base64=false") as server:
        yield server.wait_ready()


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    """Return a copy of the tests, with an empty plugin for fake responses: they use none."""
    top = tmp_path_factory.mktemp("suite")
    shutil.copytree(Path(SUITE) / "tests", top / "tests")
    plugin = top / "tests/respx2/plugin.py"
    if not plugin.exists():
        plugin.parent.mkdir()
        plugin.touch()
    (top / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\n")
    return top


@pytest.mark.timeout(600)
@pytest.mark.parametrize("file", FILES)
def test_the_tests_of_openai_python(served, suite, file):
    path = f"tests/api_resources/{file}"
    unsupported = "retrieve or update or list or delete" if "chat" in file else "delete"
    done = subprocess.run(
        [
            PYTHON,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            path,
            "-k",
            f"not ({unsupported})",
        ],
        cwd=suite,
        env={**os.environ, "TEST_API_BASE_URL": f"{served.url}/v1"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert int(re.search(r"(\d+) passed", done.stdout)[1]) > 10
