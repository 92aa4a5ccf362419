# SPDX-License-Identifier: Apache-2.0
"""The worker half alone: which inputs a body becomes."""

import json

import pytest
from servekit_vertex.envelope import VertexBody

from servekit.errors import InputError
from servekit.extension import EnvelopeRequest, ModelView
from servekit.plugins import create_plugin_manager
from servekit.worker.codecs.table import CodecTable
from servekit.worker.envelopes.table import WorkerCodecs

CODECS = WorkerCodecs(CodecTable(create_plugin_manager(discover=False)))


def inputs_of(body):
    """Return the values in the inputs that *body* becomes."""
    fields = {"content_type": "application/json", "accept": "", "request_id": "r"}
    request = EnvelopeRequest(body=body, parameters={}, **fields)
    made = VertexBody(ModelView(name="m", version="1", interface=None), CODECS).decode(request)
    return [json.loads(each.body) for each in made]


@pytest.mark.parametrize("parameters", [b"{}", b"{ }", b"{\n}", b"{\r\n\t}", b"null", b" null "])
def test_instances_may_be_anything_if_there_are_no_parameters(parameters):
    body = b'{"instances": [1, {"a": 2}], "parameters": %b}' % parameters

    assert inputs_of(body) == [1, {"a": 2}]


def test_parameters_become_members_that_an_instance_lacks():
    body = b'{"parameters": { "a": 1, "b": 2 }, "instances": [{}, {"a": 3}]}'

    assert inputs_of(body) == [{"a": 1, "b": 2}, {"a": 3, "b": 2}]


@pytest.mark.parametrize("parameters", [b"[]", b"1", b'""', b"false"])
@pytest.mark.parametrize("instances", [b"[]", b"[{}]"])
def test_parameters_that_are_no_object_are_refused(instances, parameters):
    with pytest.raises(InputError, match="parameters: "):
        inputs_of(b'{"instances": %b, "parameters": %b}' % (instances, parameters))
