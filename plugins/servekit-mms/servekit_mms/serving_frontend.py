# SPDX-License-Identifier: Apache-2.0
"""``ServingFrontend`` of MMS 0.x: a program that registers, loads and serves models.

The models run in workers of a server, which ``start_handler`` starts. Callbacks of endpoints run in
threads of the program itself.
"""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import servekit
from servekit.errors import StartupError
from servekit_mms.archives import read_signature
from servekit_mms.callbacks import CallbackEndpoint, CallbackServer, FlaskRequestHandler
from servekit_mms.description import of_signature, swagger
from servekit_mms.modules import import_file, model_services_in
from servekit_mms.remote import RemoteModelService

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from servekit_mms.model_service import ModelService

__all__ = ["ServingFrontend"]


class ServingFrontend:
    """Registers service classes, loads models with them, and serves both."""

    def __init__(self, app_name: str) -> None:
        """Load nothing yet."""
        self.handler = FlaskRequestHandler(app_name)
        self._registered: dict[str, type[ModelService]] = {}
        self._loaded: dict[str, RemoteModelService] = {}
        self._options: list[str] = []
        self._endpoints: list[CallbackEndpoint] = []

    # ------------------------------------------------------------ service classes and models

    def register_module(self, user_defined_module_file_path: str) -> list[type[ModelService]]:
        """Import a service file, and return the service classes in it.

        :raises AssertionError: it has none.
        """
        path = Path(user_defined_module_file_path).absolute()
        found = model_services_in(import_file(path))
        assert found, (
            f"No valid python class derived from Base Model Service is in module file: {path}"
        )
        self._registered |= {each.__name__: each for each in found}
        return found

    def get_registered_modelservices(
        self, modelservice_names: str | list[str] | None = None
    ) -> dict[str, type[ModelService]]:
        """Return service classes by their names; all of them, or those that are named."""
        return _picked(self._registered, modelservice_names)

    def load_models(
        self,
        models: Iterable[tuple[str, str, str, Mapping[str, Any]]],
        ModelServiceClassDef: type[ModelService],  # noqa: N803 - as in MMS
        gpu: int | None = None,
    ) -> None:
        """Serve models with a class, once the server starts.

        :param models: for each: the name of its path, the name of its manifest, its archive or
            directory, and its manifest, which is read from there.
        :raises StartupError: workers cannot import the class.
        """
        file = inspect.getsourcefile(ModelServiceClassDef)
        if file is None:
            raise StartupError(f"{ModelServiceClassDef.__name__}: is not defined in a file")
        service = json.dumps(f"{Path(file).absolute()}:{ModelServiceClassDef.__name__}")
        for name, model_name, location, _ in models:
            path = Path(location).absolute()
            self._loaded[name] = RemoteModelService(name, model_name, path, read_signature(path))
            self._options.append(f'"{name}".options.service={service}')
            if gpu is not None:
                self._options.append(f'"{name}".options.gpu={gpu}')

    def get_loaded_modelservices(
        self, modelservice_names: str | list[str] | None = None
    ) -> dict[str, RemoteModelService]:
        """Return models by the names of their paths; all of them, or those that are named.

        Each has ``inference``, ``ping`` and ``signature``, and asks the server, which must run.
        """
        return _picked(self._loaded, modelservice_names)

    # ------------------------------------------------------------ endpoints

    def add_endpoint(
        self, api_definition: Mapping[str, Any], callback: Callable[..., Any], **kwargs: Any
    ) -> None:
        """Let *callback*, with *kwargs*, answer at the first path of *api_definition*.

        It runs in a thread of this process, as a view of Flask.
        """
        self._endpoints.append(CallbackEndpoint.of(api_definition, callback, kwargs))

    def get_query_string(self, field: str) -> str | None:
        """Return a parameter of the query of the request that a callback answers."""
        return self.handler.get_query_string(field)

    def ping_callback(self, **_kwargs: Any) -> Any:
        """Answer as ``/ping`` does; for further endpoints."""
        try:
            for each in self._loaded.values():
                each.ping()
        except OSError:
            return self.handler.jsonify({"health": "unhealthy!"}), 503
        return self.handler.jsonify({"health": "healthy!"})

    def setup_openapi_endpoints(self, host: str, port: int) -> dict[str, Any]:
        """Return the description of the models that are loaded, in Swagger 2.0.

        The server answers at the paths in it by itself.
        """
        models = {name: of_signature(each.declared) for name, each in self._loaded.items()}
        return swagger(models, f"{host}:{port}")

    # ------------------------------------------------------------ the server

    def start_handler(self, host: str, port: int, **settings: Any) -> None:
        """Serve until a signal comes, as ``servekit start`` does.

        :param settings: options of ``servekit start``: ``replicas=2, log_level="warning"``.
        :raises StartupError: nothing can be served.
        """
        models = {name: each.path for name, each in self._loaded.items()}
        assigned = list(settings.pop("set", ())) + self._options
        plugin = [*settings.pop("plugin", ()), "mms.root=true"]
        reached = "127.0.0.1" if host in ("", "0.0.0.0") else host  # noqa: S104 - compared
        for each in self._loaded.values():
            each.url = f"http://{reached}:{port}"
        with CallbackServer(self.handler.app, self._endpoints) as callbacks:
            if self._endpoints:
                plugin.append(f"mms.endpoints={callbacks.file}")
            servekit.serve(models, host=host, port=port, set=assigned, plugin=plugin, **settings)


def _picked(found: dict[str, Any], names: str | list[str] | None) -> dict[str, Any]:
    """Return the entries of *found* with *names*.

    :raises KeyError: there is no such entry.
    """
    if names is None:
        return dict(found)
    return {name: found[name] for name in ([names] if isinstance(names, str) else names)}
