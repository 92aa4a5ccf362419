# SPDX-License-Identifier: Apache-2.0
"""Which fetcher gets a URL: the built-in one, or a plugin's."""

from types import SimpleNamespace

import pytest

from servekit import hookimpl
from servekit.assets import http
from servekit.assets.fetchers import find_fetcher
from servekit.errors import PluginError
from servekit.plugins import collect, create_plugin_manager


def plugin(**schemes):
    def register_fetchers():
        return schemes

    return SimpleNamespace(register_fetchers=hookimpl(register_fetchers))


def find(url, *plugins):
    return find_fetcher(url, create_plugin_manager(*plugins, discover=False))


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_http_is_built_in(scheme):
    assert find(f"{scheme}://example.org/w") is http.fetch


def test_a_plugin_adds_a_scheme_and_replaces_a_built_in_one():
    mine = plugin(s3="servekit.assets.http:fetch", http="servekit.assets.fetchers:fetch_file")

    assert find("s3://store/w", mine) is http.fetch
    assert find("http://store/w", mine) is not http.fetch


@pytest.mark.parametrize(
    ("plugins", "complaint"),
    [
        pytest.param([], "no plugin fetches s3: URLs; known: file, http, https", id="none"),
        pytest.param([plugin(s3="a:b"), plugin(s3="c:d")], "uninstall one", id="two"),
        pytest.param([plugin(s3="nowhere:fetch")], "nowhere:fetch: ModuleNotFound", id="broken"),
    ],
)
def test_no_fetcher_is_one_line_that_says_why(plugins, complaint):
    with pytest.raises(PluginError, match=complaint):
        find("s3://store/w", *plugins)


def test_built_in_fetchers_are_offered_as_a_plugin_offers_its_own():
    offered = collect(create_plugin_manager(discover=False), "register_fetchers")

    assert set(offered) == {"file", "http", "https"}
    assert all(callable(find(f"{scheme}://h/w")) for scheme in offered)
