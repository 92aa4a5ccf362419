# SPDX-License-Identifier: Apache-2.0
"""Settings win over the variables of OpenTelemetry, and these over the defaults."""

import msgspec
import pytest
from servekit_otel.exporting import exporter_of, resource_of
from servekit_otel.settings import ENDPOINTS, OtelSettings, protocol_of, sampling_of, share_of

GIVEN = OtelSettings(endpoint="http://localhost:4318")


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch):
    for name in (*ENDPOINTS, "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG", "OTEL_SDK_DISABLED"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("settings", "variables", "expected"),
    [
        pytest.param(OtelSettings(), {}, False, id="nothing is said"),
        pytest.param(GIVEN, {}, True, id="a setting"),
        pytest.param(OtelSettings(), {ENDPOINTS[0]: "http://c/v1/traces"}, True, id="a variable"),
        pytest.param(OtelSettings(), {ENDPOINTS[1]: "http://c"}, True, id="another variable"),
        pytest.param(GIVEN, {"OTEL_SDK_DISABLED": "true"}, False, id="disabled"),
        pytest.param(GIVEN, {"OTEL_TRACES_EXPORTER": "none"}, False, id="no exporter"),
    ],
)
def test_there_are_traces_if_there_is_a_collector(settings, variables, expected, monkeypatch):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    assert settings.enabled == expected


@pytest.mark.parametrize(
    ("sampling", "sampler", "argument", "expected"),
    [
        (None, "", "", 0.1),
        (0.5, "always_off", "", 0.5),
        (0.0, "always_on", "", 0.0),
        (None, "always_on", "", 1.0),
        (None, "parentbased_always_off", "", 0.0),
        (None, "parentbased_traceidratio", "0.25", 0.25),
        (None, "traceidratio", "", 1.0),
    ],
)
def test_the_share_that_is_sampled(sampling, sampler, argument, expected, monkeypatch):
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", sampler)
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", argument)

    assert share_of(OtelSettings(sampling=sampling)) == expected


@pytest.mark.parametrize(
    ("settings", "sampler", "expected"),
    [
        (OtelSettings(), "", (0.1, 100.0, True)),
        (OtelSettings(), "always_off", (0.0, 100.0, False)),
        (OtelSettings(), "always_on", (1.0, 100.0, False)),
        (OtelSettings(), "parentbased_always_off", (0.0, 100.0, True)),
        (OtelSettings(sampling=0.5, max_per_second=7.0), "always_off", (0.5, 7.0, True)),
        (OtelSettings(max_per_second=0.0), "parentbased_traceidratio", (1.0, None, True)),
    ],
)
def test_limits_and_flags_of_clients(settings, sampler, expected, monkeypatch):
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", sampler)
    found = sampling_of(settings)

    assert (found.share, found.per_second, found.follows_clients) == expected


@pytest.mark.parametrize(("name", "argument"), [("jaeger_remote", ""), ("traceidratio", "2")])
def test_a_sampler_that_cannot_be_followed_is_refused(name, argument, monkeypatch):
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", name)
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", argument)

    with pytest.raises(ValueError, match=r"^OTEL_TRACES_SAMPLER"):
        share_of(OtelSettings())


@pytest.mark.parametrize(
    "values", [{"endpoint": "localhost:4318"}, {"protocol": "thrift"}, {"sampling": 2.0}]
)
def test_a_value_that_is_not_valid_is_refused(values):
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(values, OtelSettings)


def test_the_endpoint_of_http_gets_the_path_of_traces():
    base = exporter_of(GIVEN)
    whole = exporter_of(OtelSettings(endpoint="http://localhost:4318/v1/traces"))

    assert base._endpoint == whole._endpoint == "http://localhost:4318/v1/traces"


def test_the_protocol_is_http_unless_something_else_is_said(monkeypatch):
    assert protocol_of(GIVEN) == "http/protobuf"
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")

    assert protocol_of(GIVEN) == "grpc"
    assert protocol_of(OtelSettings(protocol="http/protobuf")) == "http/protobuf"
    assert type(exporter_of(GIVEN)).__module__.startswith("opentelemetry.exporter.otlp.proto.grpc")


@pytest.mark.parametrize(
    ("settings", "variable", "expected"),
    [("", "", "servekit"), ("", "models", "models"), ("mine", "models", "mine")],
)
def test_the_name_of_the_service(settings, variable, expected, monkeypatch):
    monkeypatch.setenv("OTEL_SERVICE_NAME", variable)
    found = resource_of(OtelSettings(service_name=settings)).attributes

    assert found["service.name"] == expected
    assert found["host.name"]
