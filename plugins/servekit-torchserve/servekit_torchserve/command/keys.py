# SPDX-License-Identifier: Apache-2.0
"""The keys of ``config.properties``: each becomes a setting of the server, or is reported."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlsplit

from servekit.errors import StartupError
from servekit.extension import MigrationRow

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ADDRESSES", "ELSEWHERE", "MISSING", "NOT_NEEDED", "OPTIONS", "SETTINGS", "settings_of"]


class SettingKey(NamedTuple):
    """The setting that a key becomes."""

    variable: str
    note: str = ""  #: a difference to tell


PLUGIN: Final = "SERVEKIT_PLUGIN_TORCHSERVE_"
SETTINGS: Final = {
    "certificate_file": SettingKey("SERVEKIT_TLS_CERTIFICATE"),
    "cors_allowed_origin": SettingKey("SERVEKIT_CORS_ORIGINS"),
    "default_response_timeout": SettingKey(
        "SERVEKIT_PREDICT_TIMEOUT", "wins over responseTimeout of the archives, too"
    ),
    "default_startup_timeout": SettingKey(
        "SERVEKIT_LOAD_TIMEOUT", "wins over startupTimeout of the archives, too"
    ),
    "default_workers_per_model": SettingKey(
        "SERVEKIT_REPLICAS", "wins over minWorkers of the archives, too"
    ),
    "enable_model_api": SettingKey(f"{PLUGIN}MODEL_API"),
    "install_py_dep_per_model": SettingKey(
        "SERVEKIT_INSTALL_REQUIREMENTS", "models with the same requirements share an environment"
    ),
    "job_queue_size": SettingKey("SERVEKIT_QUEUE"),
    "max_request_size": SettingKey("SERVEKIT_MAX_BODY"),
    "max_response_size": SettingKey("SERVEKIT_MAX_ANSWER"),
    "private_key_file": SettingKey("SERVEKIT_TLS_KEY"),
}
#: keys that are options of each model, and those options
OPTIONS: Final = {
    "decode_input_request": "decode_input",
    "limit_max_image_pixels": "limit_max_image_pixels",
    "service_envelope": "envelope",
}
#: read by the parts of the command that need several of them
ADDRESSES: Final = {
    "inference_address": "http://127.0.0.1:8080",
    "management_address": "http://127.0.0.1:8081",
    "metrics_address": "http://127.0.0.1:8082",
}
GRPC: Final = {
    "inference": ("127.0.0.1", "7070"),
    "management": ("127.0.0.1", "7071"),
}
ELSEWHERE: Final = (
    *(f"grpc_{name}_{part}" for name in GRPC for part in ("address", "port")),
    *("load_models", "model_store", "models", "disable_token_authorization"),
    "enable_envvars_config",
    *OPTIONS,
)
NOT_NEEDED: Final = {
    "async_logging": "the log never blocks a request",
    "enable_metrics_api": "the page of metrics is always there",
    "initial_worker_port": "workers are reached by descriptors, not by ports",
    "netty_client_threads": "there are no threads to size",
    "number_of_netty_threads": "front_ends sets how many processes talk to clients",
    "prefer_direct_buffer": "large bodies are in shared memory",
    "ts_open_inference_protocol": "pip install servekit-oip",
    "vmargs": "there is no virtual machine",
}
WITHOUT: Final = "MODEL.env, or [worker] env in the archive"
MISSING: Final = {
    "allowed_urls": "URLs are opened by plugins; the allow-list of servekit-policy restricts them",
    "blacklist_env_vars": "workers get few variables; pass_env names more",
    "cors_allowed_headers": "",
    "cors_allowed_methods": "",
    "cpu_launcher_args": "MODEL.cpus pins workers to CPUs",
    "cpu_launcher_enable": "MODEL.cpus pins workers to CPUs",
    "default_service_handler": "--set MODEL.options.handler=FILE, for each model",
    "disable_system_metrics": "metrics of the machine come from node_exporter",
    "enable_grpc_ssl": "gRPC has TLS if an address of HTTP has",
    **dict.fromkeys(
        (f"grpc_{name}_max_connection_age{part}" for name in GRPC for part in ("_ms", "_grace_ms")),
        "connections last",
    ),
    "ipex_enable": "",
    "ipex_gpu_enable": "",
    "keystore": "export it as PEM: certificate_file, private_key_file",
    "keystore_pass": "",
    "keystore_type": "",
    "metric_time_interval": "metrics of the machine come from node_exporter",
    "metrics_config": "",
    "metrics_mode": "metrics are on the page, in the format of Prometheus",
    "model_metrics_auto_detect": "",
    "model_snapshot": "changes are kept in the state file, unless --ncs is given",
    "number_of_gpu": "MODEL.devices says which GPUs a model gets",
    "plugins_path": "plugins are Python packages",
    "system_metrics_cmd": "",
    "token_expiration_min": "tokens do not expire",
    "ts_header_key_sequence_end": "",
    "ts_header_key_sequence_id": "",
    "ts_header_key_sequence_start": "",
    "unregister_model_timeout": "requests that have arrived are answered first",
    "use_env_allowed_urls": "",
    "workflow_store": "",
}


def settings_of(properties: Mapping[str, str]) -> tuple[dict[str, str], list[MigrationRow]]:
    """Return the settings of the server, as variables, and what became of each property.

    :raises StartupError: an address is not one.
    """
    found, rows = _addresses(properties)
    found |= _grpc_addresses(properties)
    for key, value in properties.items():
        if key in SETTINGS and value:
            setting = SETTINGS[key]
            found[setting.variable] = _value(key, value)
            rows.append(MigrationRow(f"{key}={value}", setting.variable, setting.note))
        elif key not in ADDRESSES and key not in ELSEWHERE and key not in SETTINGS:
            rows.append(MigrationRow(f"{key}={value}", note=_why(key)))
    if not _has_tls(properties):
        for name in ("SERVEKIT_TLS_CERTIFICATE", "SERVEKIT_TLS_KEY"):
            found.pop(name, None)
    return found, rows


def _why(key: str) -> str:
    if key in NOT_NEEDED:
        return f"not needed: {NOT_NEEDED[key]}"
    return MISSING.get(key, "unknown")


def _value(key: str, value: str) -> str:
    return value.replace(",", " ") if key == "cors_allowed_origin" else value


def _has_tls(properties: Mapping[str, str]) -> bool:
    return any(properties.get(key, "").startswith("https:") for key in ADDRESSES)


def _addresses(properties: Mapping[str, str]) -> tuple[dict[str, str], list[MigrationRow]]:
    """Return the settings for the addresses; those of TorchServe are the defaults."""
    found, rows = {}, []
    for key, default in ADDRESSES.items():
        text = properties.get(key) or default
        variable = VARIABLES[key]
        found[variable] = _bind(key, text)
        if key in properties:
            rows.append(MigrationRow(f"{key}={text}", variable))
    return found, rows


def _grpc_addresses(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the settings for gRPC, if it is installed."""
    if find_spec("grpc") is None:
        return {}
    found = {}
    for name, (host, port) in GRPC.items():
        host = properties.get(f"grpc_{name}_address") or host
        port = properties.get(f"grpc_{name}_port") or port
        found[f"{PLUGIN}GRPC_{name.upper()}"] = f"{host}:{port}"
    return found


VARIABLES: Final = {
    "inference_address": "SERVEKIT_BIND",
    "management_address": f"{PLUGIN}MANAGEMENT",
    "metrics_address": f"{PLUGIN}METRICS",
}
PORTS: Final = {"http": 80, "https": 443}


def _bind(key: str, text: str) -> str:
    """Return the address *text* as servekit writes it.

    :raises StartupError: it is not one, or a socket where none can be.
    """
    if text.startswith("unix:"):
        if key != "inference_address":
            raise StartupError(f"{key}: {text}: only the inference address can be a Unix socket")
        return text
    try:
        url = urlsplit(text)
        default = PORTS[url.scheme]
        port = url.port or default
    except (KeyError, ValueError):
        raise StartupError(f"{key}: {text!r} is not an address, http://HOST:PORT") from None
    host = url.hostname or "127.0.0.1"
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
