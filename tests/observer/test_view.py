# SPDX-License-Identifier: Apache-2.0
"""What plugins get in the observer: the settings that the supervisor has written."""

from pathlib import Path

from servekit.observer.view import ObserverView
from servekit.settings import Settings
from servekit.settings.plugin_values import PluginValue
from servekit.settings.shared import read_settings, write_settings


def test_settings_survive_the_way_to_other_processes(tmp_path):
    value = PluginValue(plugin="otel", key="sampling", value=0.5, source="f", is_text=False)
    settings = Settings(port=1234, models=("a.mar",), plugins=(value,))
    write_settings(settings, tmp_path)

    assert read_settings(tmp_path) == settings


def test_a_plugin_has_its_own_settings():
    found = ObserverView(Settings(), Path("/run"), {"otel": "those of otel"})

    assert found.plugin_settings("otel") == "those of otel"
    assert found.run_directory == Path("/run")
