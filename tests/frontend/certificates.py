# SPDX-License-Identifier: Apache-2.0
"""Certificates for tests of TLS, and clients that trust them."""

import ssl

import trustme


class Files:
    """An authority, and the PEM files of a server and of a client that it vouches for."""

    def __init__(self, directory) -> None:
        self.authority = trustme.CA()
        self.directory = directory
        self.ca = self.write("ca", self.authority.cert_pem)
        server = self.authority.issue_cert("localhost", "127.0.0.1")
        self.certificate = self.write("server", *server.cert_chain_pems)
        self.key = self.write("key", server.private_key_pem)
        self.client = self.authority.issue_cert("client@test")

    def write(self, name, *blobs) -> str:
        path = self.directory / f"{name}.pem"
        path.write_bytes(b"".join(blob.bytes() for blob in blobs))
        return str(path)

    @property
    def settings(self) -> dict[str, str]:
        return {"tls_certificate": self.certificate, "tls_key": self.key}

    def connect(self, front_end, *, is_known: bool = False) -> ssl.SSLSocket:
        context = ssl.create_default_context()
        self.authority.configure_trust(context)
        if is_known:
            self.client.configure_cert(context)
        return context.wrap_socket(front_end.connect(), server_hostname="localhost")


def offering(files, *protocols):
    """Return a context of a client that offers these."""
    context = ssl.create_default_context(cafile=files.ca)
    context.set_alpn_protocols(protocols)
    return context
