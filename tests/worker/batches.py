# SPDX-License-Identifier: Apache-2.0
"""Runs batches through a service in this process, without sockets."""

import msgspec

from servekit import Service
from servekit.plugins import create_plugin_manager
from servekit.worker.boot.assembly import assemble
from servekit.worker.codecs.table import CodecTable
from tests.worker.worker_process import item


def loaded(service: Service, *plugins: object, **limits):
    """Return *service* behind a predictor, with no codecs but the built-in ones and *plugins*."""
    table = CodecTable(create_plugin_manager(*plugins, discover=False))
    return assemble(service, table, **limits)


def service_of(predict, signature=None, **steps) -> Service:
    """Return an instance of a service made of functions."""
    service = type("Made", (Service,), {"predict": predict, **steps})()
    service.signature = signature
    return service


def echo(self, batch):
    """Answer what came."""
    return batch


def answer(service: Service, body, content_type="application/json", accept=""):
    """Return the error name or media type of one request, and its body."""
    return answers(service, item(body, content_type, accept))[0]


def answers(service: Service, *items):
    """Return error name or media type, and body, of every item of a batch."""
    turn = loaded(service).predictor.answer(items)
    return [(error or media_type, body) for error, media_type, body in turn.answers]


def prediction(service: Service, body, content_type="application/json"):
    """Return the prediction of one request, or the error's name and detail."""
    name, text = answer(service, body, content_type)
    decoded = msgspec.json.decode(text)
    return decoded["prediction"] if "/" in name else (name, decoded["detail"])
