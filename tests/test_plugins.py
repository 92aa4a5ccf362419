# SPDX-License-Identifier: Apache-2.0
"""Plugins that work, that are broken, and that contradict each other."""

from types import SimpleNamespace

import pytest

from servekit import hookimpl
from servekit.builtin import DEFAULT_PLUGINS
from servekit.errors import PluginError
from servekit.plugins import (
    choose,
    collect,
    create_plugin_manager,
    installed_plugins,
    leave_out,
)


def plugin(**services):
    def register_services():
        return services

    return SimpleNamespace(register_services=hookimpl(register_services))


def test_contributions_of_all_plugins_are_collected():
    one, two = plugin(a="m:A"), plugin(b="m:B", a="m:C")
    offers = collect(create_plugin_manager(one, two, discover=False), "register_services")

    targets = {name: sorted(offer.target for offer in found) for name, found in offers.items()}
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


def labelled(name, results, **how):
    """Return a plugin whose ``register_codecs`` returns *results*, or is a wrapper."""

    def register_codecs():
        return results

    return SimpleNamespace(register_codecs=hookimpl(**how)(register_codecs), name=name)


def manager_of(*plugins):
    manager = create_plugin_manager(discover=False)
    for plugin in plugins:
        manager.register(plugin, plugin.name)
    return manager


def test_contributions_say_which_plugin_they_come_from():
    manager = manager_of(labelled("a", {"x/y": "m:a"}), labelled("b", {"x/y": "m:b"}))
    found = collect(manager, "register_codecs")["x/y"]

    assert {offer.plugin: offer.target for offer in found} == {"a": "m:a", "b": "m:b"}
    with pytest.raises(PluginError, match=r"^codec x/y: offered by a and b; uninstall one$"):
        choose("codec x/y", found)


def test_tryfirst_and_trylast_order_the_calls():
    plugins = (
        labelled("first", {"a/a": "m:a"}, tryfirst=True),
        labelled("last", {"b/b": "m:b"}, trylast=True),
        labelled("between", {"c/c": "m:c"}),
    )
    found = [name for name, _ in manager_of(*plugins).contributions("register_codecs")]

    assert found == ["first", "between", "servekit.builtin.codecs", "last"]


def test_a_wrapper_sees_the_contributions_and_may_change_them():
    def register_codecs():
        results = yield
        return [{"x/y": "m:changed"} if "x/y" in each else each for each in results]

    wrapper = SimpleNamespace(register_codecs=hookimpl(wrapper=True)(register_codecs), name="w")
    manager = manager_of(labelled("a", {"x/y": "m:a"}), labelled("b", {"z/z": "m:b"}), wrapper)
    found = collect(manager, "register_codecs")

    assert [tuple(offer) for offer in found["x/y"]] == [("a hook wrapper", "m:changed", False)]
    assert [tuple(offer) for offer in found["z/z"]] == [("b", "m:b", False)]
    assert found["application/json"][0].is_builtin


def test_what_is_built_in_comes_first_and_is_replaced_by_what_a_plugin_offers():
    found = collect(manager_of(labelled("a", {"text/plain": "m:a"})), "register_codecs")

    assert [tuple(offer) for offer in found["text/plain"]] == [("a", "m:a", False)]
    assert next(iter(found)) == "application/json"


def test_plugin_that_is_required_has_to_be_there():
    create_plugin_manager(required=["onnx"])
    with pytest.raises(PluginError, match=r"^plugin nope is required and not installed$"):
        create_plugin_manager(required=["onnx", "nope"])


def test_first_party_plugins_are_found_with_their_hooks():
    found = {each.name: each for each in installed_plugins()}

    assert {"sklearn", "onnx", "image"} <= set(found)
    assert found["onnx"].hooks == ("recognise_model", "register_services")
    assert found["onnx"].error == ""
    assert not found["onnx"].is_builtin


def test_what_is_built_in_is_listed_as_plugins_of_its_own():
    found = [each for each in installed_plugins() if each.is_builtin]

    assert [each.name for each in found] == list(DEFAULT_PLUGINS)
    assert {hook for each in found for hook in each.hooks} == {
        "find_service", "register_codecs", "register_commands", "register_fetchers",
    }  # fmt: skip


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


@pytest.mark.parametrize(("enabled", "left"), [(True, ["page"]), (False, [])])
def test_a_plugin_whose_setting_says_so_is_left_out(enabled, left):
    class Page:
        @hookimpl
        def register_services(self):
            return {"page": "page:Service"}

    manager = create_plugin_manager(discover=False)
    manager.register(Page(), "page")
    leave_out(manager, {"page": SimpleNamespace(enabled=enabled), "other": SimpleNamespace()})

    assert [
        name for name, _ in manager.contributions("register_services") if name == "page"
    ] == left
