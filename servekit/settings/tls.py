# SPDX-License-Identifier: Apache-2.0
"""The TLS context of a server, from the files that the settings name."""

import ssl
from pathlib import Path

from servekit.errors import StartupError
from servekit.settings import Settings

__all__ = ["server_context"]


def server_context(settings: Settings) -> ssl.SSLContext | None:
    """Return the context, TLS 1.2 or newer; ``None`` when no certificate is set.

    :raises StartupError: a file cannot be read, is not PEM, or does not match the others.
    """
    if not settings.tls_certificate:
        for name in ("tls_key", "tls_client_ca"):
            if getattr(settings, name):
                raise StartupError(f"{name}: requires tls_certificate")
        return None
    for name in ("tls_certificate", "tls_key", "tls_client_ca"):
        check_readable(name, getattr(settings, name))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    key = settings.tls_key or None
    try:
        # never ask for a password: nobody may be there to type it
        context.load_cert_chain(settings.tls_certificate, key, password="")
    except (ssl.SSLError, ValueError) as error:
        files = " with tls_key: ".join(filter(None, (settings.tls_certificate, key)))
        raise StartupError(f"tls_certificate: {files}: {_reason(error)}") from error
    if settings.tls_client_ca:
        try:
            context.load_verify_locations(settings.tls_client_ca)
        except ssl.SSLError as error:
            text = f"tls_client_ca: {settings.tls_client_ca}: {_reason(error)}"
            raise StartupError(text) from error
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def check_readable(name: str, path: str) -> None:
    """Refuse a file that cannot be opened, by the *name* of its setting."""
    try:
        if path:
            Path(path).open("rb").close()
    except OSError as error:
        raise StartupError(f"{name}: {path}: {(error.strerror or '').lower()}") from error


def _reason(error: Exception) -> str:
    """Return the message of OpenSSL, without its source lines."""
    reason = (getattr(error, "reason", None) or "").replace("_", " ").lower()
    return reason if reason not in ("", "no start line") else "it has no usable PEM"
