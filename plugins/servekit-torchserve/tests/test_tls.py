# SPDX-License-Identifier: Apache-2.0
"""All addresses of a server like TorchServe's over TLS."""

import json
import ssl
from http.client import HTTPSConnection

import pytest
from torchserve_process import TorchServeProcess, write_archive

grpc = pytest.importorskip("grpc")
trustme = pytest.importorskip("trustme")

from servekit_torchserve.grpc.messages import MANAGEMENT, methods_of  # noqa: E402 - it needs grpc

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
WAIT_S = 240.0


class SecureProcess(TorchServeProcess):
    """A server whose addresses begin with ``https:``."""

    def __init__(self, store, directory):
        authority = trustme.CA()
        certificate = authority.issue_cert("localhost", "127.0.0.1")
        certificate.cert_chain_pems[0].write_to_path(directory / "certificate.pem")
        certificate.private_key_pem.write_to_path(directory / "key.pem")
        self.root = authority.cert_pem.bytes()
        self.context = ssl.create_default_context(cadata=self.root.decode())
        properties = f"certificate_file={directory}/certificate.pem\n"
        properties += f"private_key_file={directory}/key.pem\n"
        arguments = ("--models", "echo.mar", "--disable-token-auth")
        super().__init__(store, *arguments, properties=properties)

    def configure(self, text):
        return text.replace("http:", "https:")

    def connect(self, port):
        return HTTPSConnection("127.0.0.1", port, timeout=WAIT_S, context=self.context)


def test_every_address_has_the_certificate(tmp_path):
    store = tmp_path / "store"
    store.mkdir()
    write_archive(store, "echo.mar", "echo")
    with SecureProcess(store, tmp_path) as server:
        server.wait_ready()
        predicted = server.ask("POST", "/echo/predict", 1, port=server.inference)
        listed = server.ask("GET", "/models")
        metrics = server.ask("GET", "/metrics", port=server.metrics)
        described = describe(server)

    assert predicted == (200, {"prediction": ["1.0", 1]})
    assert [each["modelName"] for each in listed[1]["models"]] == ["echo"]
    assert metrics[0] == 200
    assert described[0]["modelName"] == "echo"


def describe(server):
    """Return the description of the model over gRPC."""
    request, response = methods_of(MANAGEMENT)["DescribeModel"]
    credentials = grpc.ssl_channel_credentials(server.root)
    with grpc.secure_channel(f"127.0.0.1:{server.grpc_management}", credentials) as channel:
        call = channel.unary_unary(
            f"/{MANAGEMENT}/DescribeModel",
            request_serializer=request.SerializeToString,
            response_deserializer=response.FromString,
        )
        return json.loads(call(request(model_name="echo"), timeout=WAIT_S).msg)
