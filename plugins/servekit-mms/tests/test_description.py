# SPDX-License-Identifier: Apache-2.0
"""``/api-description`` in the shape of MMS, and valid."""

import msgspec
import pytest
from servekit_mms.archives import LegacySignature
from servekit_mms.description import Described, of_signature, swagger

from .conftest import signature

HANDLER = Described((), is_picture=False)


def described(*names, **types):
    return of_signature(msgspec.convert(signature(*names, **types), LegacySignature))


@pytest.mark.parametrize("needs_token", [False, True])
def test_it_is_valid_with_every_kind_of_model(needs_token):
    validator = pytest.importorskip("openapi_spec_validator")
    models = {
        "text": described("a", "b"),
        "image": described("data", input_type="image/jpeg", output_type="image/jpeg"),
        "handler": HANDLER,
    }
    document = swagger(models, "example.org:8080", "https", needs_token=needs_token)
    validator.OpenAPIV2SpecValidator(document).validate()

    assert ("securityDefinitions" in document) == needs_token
    assert [each["name"] for each in document["paths"]["/text/predict"]["post"]["parameters"]] == [
        "a",
        "b",
    ]
    answer = document["paths"]["/image/predict"]["post"]["responses"]["200"]["schema"]
    assert answer["properties"]["prediction"] == {"type": "string", "format": "byte"}


@pytest.mark.parametrize("host", ["[::1]:8080", "", "a b", "x\r\ny"])
def test_a_host_that_swagger_cannot_hold_is_left_out(host):
    assert "host" not in swagger({"a": HANDLER}, host)
