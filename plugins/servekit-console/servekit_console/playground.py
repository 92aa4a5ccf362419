# SPDX-License-Identifier: Apache-2.0
"""The pages where people try a model. The browser itself calls the model, as any client does."""

from typing import Any, Final

import msgspec
from flask import Blueprint, Response, abort, jsonify, render_template, request
from flask.typing import ResponseReturnValue

from servekit.errors import BodyMalformed, BodyTooLarge, RouteNotFound
from servekit.extension import RequestToWrite, Server, read_json

__all__ = ["add_playground"]

MOST_BYTES: Final = 1 << 20  #: the limit for a body that is written as code
MOST_FILE_BYTES: Final = 16 << 20  #: the limit for the file of an example


def add_playground(pages: Blueprint, server: Server) -> None:
    """Add ``playground/`` and what is below it to *pages*."""
    views = PlaygroundViews(server)
    pages.add_url_rule("/playground/", "playgrounds", views.models)
    pages.add_url_rule("/playground.json", "playgrounds_json", views.models_json)
    pages.add_url_rule("/playground/<model>", "playground", views.page)
    pages.add_url_rule("/playground/<model>.json", "playground_json", views.page_json)
    pages.add_url_rule("/playground/<model>/files/<path:name>", "example_file", views.file)
    pages.add_url_rule("/playground/<model>/snippets", "snippets", views.snippets, methods=["POST"])


class PlaygroundViews:
    """Views of the blueprint. Runs in: front-end, in greenlets."""

    def __init__(self, server: Server) -> None:
        """Show the models of *server*."""
        self._server = server

    def models(self) -> str:
        """List the models."""
        return render_template("console/playgrounds.html", models=self._models())

    def models_json(self) -> Response:
        """List the models as JSON."""
        return jsonify(models=self._models())

    def _models(self) -> list[dict[str, Any]]:
        found = (self._server.describe_model(name) for name in sorted(self._server.models))
        return [{name: each[name] for name in ("name", "version", "description")} for each in found]

    def page(self, model: str) -> ResponseReturnValue:
        """Show one model; the script of the page gets the rest."""
        if model not in self._server.models:
            models = self._models()
            return render_template("console/playgrounds.html", models=models, missing=model), 404
        known = self._server.describe_model(model)
        said = known["playground"]
        return render_template(
            "console/playground.html",
            model=model,
            title=said.get("title") or model,
            description=said.get("description") or known["description"],
        )

    def page_json(self, model: str) -> Response:
        """Return all that is known about a model."""
        known = self._server.describe_model(model)
        return jsonify(**known, needs_token=self._server.needs_token)

    def file(self, model: str, name: str) -> ResponseReturnValue:
        """Return a file that an example of the model names, and no other one."""
        paths = self._server.describe_model(model)["paths"]
        types = {
            each["input_file"]: each["content_type"]
            for path in paths
            for each in path["examples"]
            if each["input_file"]
        }
        directory = self._server.models[model].directory
        if name not in types or directory is None:
            raise RouteNotFound(f"no example of {model} has the file {name}")
        path = directory / name
        if not path.is_file() or path.stat().st_size > MOST_FILE_BYTES:
            abort(404)
        response = Response(path.read_bytes(), mimetype="application/octet-stream")
        response.headers["Content-Disposition"] = "attachment"  # it is not ours: never a page
        return response

    def snippets(self, model: str) -> Response:
        """Return code that makes the request in the body, by format."""
        if (request.content_length or 0) > MOST_BYTES:
            raise BodyTooLarge(f"more than {MOST_BYTES} bytes are not written as code")
        try:
            call = read_json(request.get_data(), RequestToWrite)
        except msgspec.ValidationError as error:
            raise BodyMalformed(str(error)) from error
        except msgspec.DecodeError as error:
            raise BodyMalformed(f"not JSON: {error}") from error
        return jsonify(self._server.write_snippets(model, call))
