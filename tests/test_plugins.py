# SPDX-License-Identifier: Apache-2.0
"""Plugins that work, that are broken, and that contradict each other."""

from types import SimpleNamespace

import pytest

from servekit import hookimpl
from servekit.errors import PluginError
from servekit.plugins import collect, create_plugin_manager, installed_plugins


def plugin(**services):
    def register_services():
        return services

    return SimpleNamespace(register_services=hookimpl(register_services))


def test_contributions_of_all_plugins_are_collected():
    one, two = plugin(a="m:A"), plugin(b="m:B", a="m:C")
    offers = collect(create_plugin_manager(one, two, discover=False), "register_services")

    targets = {name: sorted(target for _, target in found) for name, found in offers.items()}
    assert targets == {"a": ["m:A", "m:C"], "b": ["m:B"]}


def test_unknown_hook_is_an_error_not_a_no_op():
    misspelt = SimpleNamespace(register_servcies=plugin().register_services)

    with pytest.raises(PluginError, match="register_servcies"):
        create_plugin_manager(misspelt, discover=False)


def test_hook_that_raises_is_named():
    def register_services():
        raise RuntimeError("no licence")

    broken = SimpleNamespace(register_services=hookimpl(register_services))

    with pytest.raises(PluginError, match="register_services: no licence"):
        collect(create_plugin_manager(broken, discover=False), "register_services")


def test_plugin_that_is_required_has_to_be_there():
    create_plugin_manager(required=["onnx"])
    with pytest.raises(PluginError, match=r"^plugin nope is required and not installed$"):
        create_plugin_manager(required=["onnx", "nope"])


def test_first_party_plugins_are_found_with_their_hooks():
    found = {each.name: each for each in installed_plugins()}

    assert {"sklearn", "onnx", "image"} <= set(found)
    assert found["onnx"].hooks == ("recognise_model", "register_services")
    assert found["onnx"].error == ""


def test_broken_plugin_is_named_and_the_others_go_on(tmp_path, monkeypatch):
    (tmp_path / "broken_plugin.py").write_text("import no_such_module\n")
    information = tmp_path / "broken-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[servekit]\nbroken = broken_plugin\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    found = {each.name: each for each in installed_plugins()}

    with pytest.raises(PluginError, match=r"^plugin broken is required and broken: ModuleNot"):
        create_plugin_manager(required=["broken"])
    assert found["broken"].error == "ModuleNotFoundError: No module named 'no_such_module'"
    assert found["onnx"].module is not None
