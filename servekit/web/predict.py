# SPDX-License-Identifier: Apache-2.0
"""What reaches Flask under ``/<model>/predict``: only what cannot be a prediction."""

from flask import Flask, Response, request
from werkzeug.exceptions import MethodNotAllowed

from servekit.errors import NotReady
from servekit.web.table import find_model
from servekit.web.view import ServerView

__all__ = ["add_predict_errors"]


def add_predict_errors(app: Flask, server: ServerView) -> None:
    """Add the answers to an unknown model (404) and to a wrong method (405)."""

    def predict(model: str) -> Response:
        find_model(server.table, model)
        if request.method == "OPTIONS":
            return Response(status=204, headers={"Allow": "POST"})
        if request.method != "POST":
            raise MethodNotAllowed(["POST"])
        raise NotReady(model)  # it came with a table newer than the one that routed this request

    # a rule that names no methods takes them all
    app.url_map.add(app.url_rule_class("/<model>/predict", endpoint="predict"))
    app.view_functions["predict"] = predict
