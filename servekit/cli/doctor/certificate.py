# SPDX-License-Identifier: Apache-2.0
"""When the certificate of a server expires."""

import ssl
from time import time
from typing import Final

__all__ = ["days_left"]

TURNS: Final = 8  #: a handshake of TLS 1.3 needs two


def days_left(certificate: str, key: str) -> int:
    """Return the whole days until *certificate* expires.

    The module ``ssl`` reads dates only of a certificate that a peer has sent: a server and a client
    in memory do that.

    :param certificate: path of a PEM file that the server can use; its first one is looked at.
    :param key: path of its key, or "" if it is in the same file.
    :raises ssl.SSLCertVerificationError: clients refuse it: it has expired, or is not valid yet.
    """
    of_server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    of_server.load_cert_chain(certificate, key or None, password="")
    of_client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    of_client.check_hostname = False
    of_client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    of_client.load_verify_locations(certificate)
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = of_client.wrap_bio(down, up)
    server = of_server.wrap_bio(up, down, server_side=True)
    for turn in range(TURNS):
        try:
            (server if turn % 2 else client).do_handshake()
        except ssl.SSLWantReadError:
            continue
        break
    facts = client.getpeercert() or {}
    left_s = ssl.cert_time_to_seconds(str(facts["notAfter"])) - time()
    return int(left_s // 86400)
