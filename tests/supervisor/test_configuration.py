# SPDX-License-Identifier: Apache-2.0
"""What a reload takes of the settings, what it leaves, and what it refuses."""

import pytest

from servekit.settings import load_settings
from servekit.supervisor.server.configuration import Configuration


@pytest.fixture
def renew(tmp_path):
    """Return what a server with one file takes when the file says something else."""
    file, notices = tmp_path / "servekit.toml", []
    (tmp_path / "a.mar").touch()
    file.write_text("[models.a]\npath = 'a.mar'\n")

    def read():
        return load_settings({}, file, {})

    configuration = Configuration(read(), read, notices.append)

    def change(text, *loaded):
        file.write_text(text)
        sources = configuration.renew(loaded)
        return sources, configuration.settings, [notice.text for notice in notices]

    return change


def test_settings_of_models_are_taken(renew):
    sources, settings, said = renew(
        "replicas = 2\n[models.b]\npath = 'a.mar'\noptions.x = 1\n[models.c]\npath = 'a.mar'\n"
    )

    assert [source.name for source in sources] == ["b", "c"]
    assert (settings.replicas, settings.deployments[0].options) == (2, {"x": 1})
    assert said == []


def test_other_settings_are_left_and_named(renew):
    sources, settings, said = renew("queue = 7\nhost = '::1'\n[models.a]\npath = 'a.mar'\n")

    assert (len(sources), settings.queue, settings.host) == (1, 1024, "127.0.0.1")
    assert said == ["needs a restart to change host, queue"]


def test_settings_of_a_model_that_was_loaded_at_run_time_are_taken(renew):
    text = "[models.a]\npath = 'a.mar'\n[models.b]\nreplicas = 2\n"
    refused, _, _ = renew(text)
    (source,), settings, _ = renew(text, "b")

    assert refused is None
    assert (source.name, settings.deployments[1].replicas) == ("a", 2)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param("=", "servekit.toml: ", id="no TOML"),
        pytest.param("[models.a]\nreplcas = 2", "did you mean 'replicas'?", id="unknown key"),
        pytest.param("[models.a]\npath = 'no'", "a.path: ", id="no such path"),
        pytest.param("[models.b]\nreplicas = 2", "none given", id="no model"),
    ],
)
def test_refused_settings_change_nothing(renew, text, complaint):
    sources, settings, (said,) = renew(text)

    assert (sources, settings.deployments[0].name) == (None, "a")
    assert said.startswith("keeps its settings: ")
    assert complaint in said
