# SPDX-License-Identifier: Apache-2.0
"""Finds the plugins that an image needs: those that a manifest names, and those of the server."""

from collections.abc import Iterator

from packaging.requirements import Requirement
from servekit_archiver import Manifest

from servekit.errors import StartupError
from servekit.plugins import InstalledPlugin, installed_plugins
from servekit_container.packages import with_extras

__all__ = ["every_package", "plugin_packages", "server_packages"]

#: plugins with these hooks change what every server answers: ``/docs``, jobs, HTTP/2, protocols
SERVER_HOOKS = {
    "register_middleware",
    "register_protocols",
    "register_routes",
    "register_transports",
}
#: hooks that only people at a command line need
COMMAND_HOOKS = {"check_setup", "explain_migration", "extend_verify", "register_commands"}


def every_package() -> list[Requirement]:
    """Return the installed distributions whose plugins have a part in serving any model.

    They have the extras whose packages are installed here, such as ``servekit-oip[grpc]``.
    """
    return [
        with_extras(plugin.distribution.partition(" ")[0])
        for plugin in installed_plugins()
        if not plugin.is_builtin and set(plugin.hooks) - COMMAND_HOOKS
    ]


def server_packages() -> list[Requirement]:
    """Return the installed distributions whose plugins extend the server itself."""
    return [
        Requirement(plugin.distribution.partition(" ")[0])
        for plugin in installed_plugins()
        if not plugin.is_builtin and SERVER_HOOKS.intersection(plugin.hooks)
    ]


def plugin_packages(manifest: Manifest) -> list[Requirement]:
    """Return the installed distributions that serve the model and fetch its assets.

    :raises StartupError: nothing that is installed here does.
    """
    plugins = installed_plugins()
    services = {stage.service for stage in manifest.every_stage.values()}
    urls = (asset.url for asset in manifest.assets.values() if asset.url is not None)
    schemes = {url.partition(":")[0] for url in urls}
    names = [
        *(_offering(plugins, "register_services", name) for name in _plugins_own(services)),
        *(_offering(plugins, "register_fetchers", s) for s in sorted(schemes)),
    ]
    return [Requirement(name) for name in names]


def _plugins_own(services: set[str]) -> Iterator[str]:
    yield from sorted(service for service in services if ":" not in service)


def _offering(plugins: list[InstalledPlugin], hook: str, key: str) -> str:
    for plugin in plugins:
        if hook in plugin.hooks and key in getattr(plugin.module, hook)():
            return plugin.distribution.partition(" ")[0]
    what = "service" if hook == "register_services" else "fetcher of"
    raise StartupError(f"{what} {key!r}: no plugin that is installed here offers it")
