# SPDX-License-Identifier: Apache-2.0
"""The settings, and what the variables of OpenTelemetry say where they are silent."""

from __future__ import annotations

import os
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from servekit.extension import TraceSampling

__all__ = ["OtelSettings", "protocol_of", "sampling_of", "share_of"]

#: share of the requests without a ``traceparent``, if neither a setting nor a variable says more
SHARE: Final = 0.1
SAMPLER, SAMPLER_ARG = "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG"
#: samplers that do not look at the flags of clients
FLAGLESS: Final = ("always_on", "always_off", "traceidratio")
ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")


class OtelSettings(Struct, frozen=True):
    """``[plugins.otel]``. What is empty is up to the variables ``OTEL_...``."""

    endpoint: Annotated[
        str,
        Meta(
            pattern="^(https?://.+)?$",
            description="URL of the collector, such as http://localhost:4318; without one, and "
            "without OTEL_EXPORTER_OTLP_ENDPOINT, nothing is traced",
        ),
    ] = ""
    protocol: Annotated[
        Literal["", "http/protobuf", "grpc"],
        Meta(description="http/protobuf (the default) or grpc"),
    ] = ""
    headers: Annotated[
        dict[str, str], Meta(description="header fields for the collector, such as API keys")
    ] = {}
    service_name: Annotated[str, Meta(description="service.name of the server in traces")] = ""
    sampling: Annotated[
        Annotated[float, Meta(ge=0.0, le=1.0)] | None,
        Meta(
            description=f"share of the requests without a traceparent that are traced; "
            f"default: what {SAMPLER} says, or {SHARE}",
        ),
    ] = None
    max_per_second: Annotated[
        float,
        Meta(
            ge=0.0,
            description="traces that each front-end begins in a second at most, besides those that "
            "clients ask for; 0: no limit",
        ),
    ] = 100.0

    @property
    def enabled(self) -> bool:
        """Whether there is a collector to export to; without one, the server leaves us out."""
        is_disabled = os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
        is_none = os.environ.get("OTEL_TRACES_EXPORTER", "otlp") == "none"
        has_endpoint = bool(self.endpoint or any(os.environ.get(name) for name in ENDPOINTS))
        return has_endpoint and not (is_disabled or is_none)


def protocol_of(settings: OtelSettings) -> str:
    """Return the protocol to export with."""
    said = [settings.protocol, *(os.environ.get(name, "") for name in PROTOCOLS), "http/protobuf"]
    return next(filter(None, said))


def sampling_of(settings: OtelSettings) -> TraceSampling:
    """Return which requests are traced.

    :raises ValueError: the variables of the sampler cannot be followed.
    """
    name = os.environ.get(SAMPLER, "")
    return TraceSampling(
        share=share_of(settings),
        per_second=settings.max_per_second or None,
        follows_clients=settings.sampling is not None or name not in FLAGLESS,
    )


def share_of(settings: OtelSettings) -> float:
    """Return the share of the requests without a ``traceparent`` that are traced.

    :raises ValueError: the variables of the sampler cannot be followed.
    """
    if settings.sampling is not None:
        return settings.sampling
    name = os.environ.get(SAMPLER, "").removeprefix("parentbased_")
    if name == "traceidratio":
        share = float(os.environ.get(SAMPLER_ARG) or 1)
        if not 0 <= share <= 1:
            raise ValueError(f"{SAMPLER_ARG}: {share} is not between 0 and 1")
        return share
    shares = {"": SHARE, "always_on": 1.0, "always_off": 0.0}
    if name not in shares:
        raise ValueError(f"{SAMPLER}: {os.environ[SAMPLER]!r} is not supported")
    return shares[name]
