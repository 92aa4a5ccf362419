# SPDX-License-Identifier: Apache-2.0
"""A server with a model of each kind, and openai's client for it."""

import shutil
from pathlib import Path

import pytest

from servekit.testing import ServedModel

TOKEN = "secret-token"
#: by name: the class of the service, and the size of its batches; 0 for a service without batches
MODELS = {
    "talk": ("Talk", 2),
    "whole": ("Whole", 8),
    "later": ("Later", 0),
    "write": ("Write", 2),
    "writes": ("Writes", 8),
    "embed": ("Embed", 4),
    "rows": ("Rows", 4),
    "plain": ("Plain", 4),
}


def write_models(top: Path) -> list[Path]:
    """Write a directory for each model below *top*."""
    for name, (kind, size) in MODELS.items():
        (top / name).mkdir()
        shutil.copy(Path(__file__).parent / "service.py", top / name)
        toml = f'name = "{name}"\nservice = "service:{kind}"\n'
        toml += f"[batching]\nmax_batch_size = {size}\n" if size else ""
        (top / name / "model.toml").write_text(toml)
    return [top / name for name in MODELS]


@pytest.fixture(scope="session")
def served(tmp_path_factory):
    top = tmp_path_factory.mktemp("openai")
    (top / "token").write_text(f"{TOKEN}\n")
    settings = {"predict_token_file": top / "token", "max_body": "4MiB"}
    with ServedModel(*write_models(top), **settings) as server:
        yield server.wait_ready()


@pytest.fixture
def connect(served):
    """Return openai's client, which does not retry, with other options."""
    import openai  # slow

    clients = []

    def connect(**options):
        options = {"api_key": TOKEN, "max_retries": 0, "timeout": 120, **options}
        clients.append(openai.OpenAI(base_url=f"{served.url}/v1", **options))
        return clients[-1]

    yield connect
    for client in clients:
        client.close()


@pytest.fixture
def client(connect):
    return connect()
