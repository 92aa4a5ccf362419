# SPDX-License-Identifier: Apache-2.0
"""Calls servekit model servers: ``Client`` from threads, ``AsyncClient`` from asyncio.

with Client("http://127.0.0.1:8080") as client:
    client.predict("digits", {"image": array})
"""

from servekit_client.answers import Answer, Health
from servekit_client.async_client import AsyncClient
from servekit_client.client import Client
from servekit_client.descriptions import Description
from servekit_client.discovery import Discovery, DnsDiscovery, FileDiscovery
from servekit_client.errors import (
    AnswerMalformed,
    ConnectionRefused,
    DeadlineExceeded,
    InputError,
    NotFound,
    QueueFull,
    RequestError,
    ServekitError,
    ServiceError,
    Unauthorized,
    Unavailable,
    Unreachable,
)
from servekit_client.jobs import AsyncJob, Job

__all__ = [
    "Answer",
    "AnswerMalformed",
    "AsyncClient",
    "AsyncJob",
    "Client",
    "ConnectionRefused",
    "DeadlineExceeded",
    "Description",
    "Discovery",
    "DnsDiscovery",
    "FileDiscovery",
    "Health",
    "InputError",
    "Job",
    "NotFound",
    "QueueFull",
    "RequestError",
    "ServekitError",
    "ServiceError",
    "Unauthorized",
    "Unavailable",
    "Unreachable",
]
