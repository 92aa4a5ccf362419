# SPDX-License-Identifier: Apache-2.0
"""Pages of the documentation, followed to the letter, and a plugin written from them alone."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import free_port

from .document import Reader

ROOT = Path(__file__).parents[2]
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.skipif(not shutil.which("curl"), reason="the documents use curl"),
]


PLUGIN = Path(__file__).with_name("plugins") / "servekit-csv"
USE = """
# `shout/model.toml`
```toml
name = "shout"
service = "service:Shout"
```
# `shout/service.py`
```python
from servekit import Service

class Shout(Service):
    def predict(self, batch):
        return [row["word"].upper() for row in batch]
```
# `rows.csv`
```csv
word,language
hello,en
salut,fr
```
# `predictions.csv`
```csv
prediction
HELLO
SALUT
```
# `error.csv`
```csv
error
no model is called nobody
```
```sh
pip install --quiet servekit servekit-archiver servekit-csv
servekit --help | grep 'predict for each row of a CSV file'
```
```sh
servekit start shout
```
```sh
servekit csv http://localhost:8080/csv/shout rows.csv | diff - predictions.csv
curl -s localhost:8080/csv | grep '/csv/shout'
curl -s --data-binary @rows.csv localhost:8080/csv/nobody | diff - error.csv
```
```sh
curl -s localhost:8080/ | python -c 'import json, sys; print(json.load(sys.stdin)["links"]["csv"])'
curl -s localhost:8080/metrics | grep 'rule="/csv"'
```
"""


@pytest.mark.timeout(400)
def test_a_protocol_a_page_and_a_command_are_a_plugin_of_less_than_80_lines(tmp_path):
    clean = tmp_path / "clean"
    subprocess.run([sys.executable, "-m", "venv", clean], check=True)
    lines = [line for path in PLUGIN.rglob("*.py") for line in path.read_text().splitlines()]
    distributions = f"{ROOT} {ROOT / 'archiver'} {PLUGIN}"
    assert len(lines) < 80

    Reader(tmp_path, clean / "bin").follow(
        USE, {"servekit servekit-archiver servekit-csv": distributions}
    )


@pytest.mark.timeout(400)
def test_the_plugin_guide_leads_to_a_served_model_in_a_clean_environment(tmp_path):
    clean = tmp_path / "clean"
    subprocess.run([sys.executable, "-m", "venv", clean], check=True)
    reader = Reader(tmp_path, clean / "bin")
    published = {"servekit servekit-archiver": f"{ROOT} {ROOT / 'archiver'}"}
    compared = reader.follow((ROOT / "docs/writing-a-plugin.md").read_text(), published)

    assert compared >= 2


def test_the_quickstart_works_as_written(tmp_path):
    installed = {"python -m pip install": "true"}
    reader = Reader(tmp_path, Path(sys.executable).parent)
    compared = reader.follow((ROOT / "docs/quickstart.md").read_text(), installed)

    assert compared >= 2


def test_the_page_on_securing_a_server_works_as_written(tmp_path):
    reader = Reader(tmp_path, Path(sys.executable).parent)
    page = (ROOT / "docs/securing.md").read_text()
    compared = reader.follow(page, {"8081": str(free_port()), "python -c": f"{sys.executable} -c"})

    assert compared >= 3
