# SPDX-License-Identifier: Apache-2.0
"""``model-config.yaml``: the keys that TorchServe's front-end reads, as keys of ``model.toml``.

All other keys are for the handler, which gets the whole file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec
import yaml
from servekit_archiver import file_in

from servekit.errors import BootError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["FrontEndKeys", "front_end_keys", "read_config"]

RESPONSE_TIMEOUT_S: Final = 120.0  #: TorchServe's
DEVICES: Final = "CUDA_VISIBLE_DEVICES"


class FrontEndKeys(msgspec.Struct, rename="camel"):
    """The keys that have a counterpart in ``model.toml``; ``None`` if they are not given."""

    min_workers: int | None = None
    batch_size: int | None = None
    max_batch_delay: float | None = None  #: milliseconds
    response_timeout: float | None = None  #: seconds
    startup_timeout: float | None = None  #: seconds
    device_type: Literal["cpu", "gpu"] | None = None
    device_ids: list[int] | None = None

    @property
    def batching(self) -> dict[str, Any]:
        """The table ``[batching]``. TorchServe makes no batches unless batchSize asks for them."""
        size = max(1, self.batch_size or 1)
        delay = {} if self.max_batch_delay is None else {"max_delay_ms": self.max_batch_delay}
        return {"max_batch_size": size, **delay}

    @property
    def worker(self) -> dict[str, Any]:
        """The table ``[worker]``."""
        replicas = max(1, self.min_workers or 1)
        table: dict[str, Any] = {
            "replicas": replicas,
            "predict_timeout_s": self.response_timeout or RESPONSE_TIMEOUT_S,
        }
        if self.startup_timeout:
            table["load_timeout_s"] = self.startup_timeout
        if self.device_type == "cpu":
            table["env"] = {DEVICES: ""}
        elif self.device_ids:
            ids = self.device_ids
            table["env"] = [{DEVICES: str(ids[at % len(ids)])} for at in range(replicas)]
        return table


def read_config(directory: Path, file: str | None) -> dict[str, Any]:
    """Return the YAML *file* of *directory*, or nothing if there is none.

    :raises ArchiveError: *file* does not lie in *directory*.
    :raises BootError: it is not a mapping in YAML.
    """
    if not file or not (path := file_in(directory, file, "configFile")).is_file():
        return {}
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (ValueError, yaml.YAMLError) as error:
        reason = str(error).replace("\n", " ")
        raise BootError(f"{file}: {reason}") from None
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise BootError(f"{file}: is a {type(found).__name__}, not a mapping")
    return found


def front_end_keys(config: dict[str, Any], file: str) -> FrontEndKeys:
    """Return the keys of *config* that concern the server.

    :raises BootError: a value has the wrong type.
    """
    try:
        return msgspec.convert(config, FrontEndKeys, strict=False)
    except msgspec.ValidationError as error:
        raise BootError(f"{file}: {error}") from None
