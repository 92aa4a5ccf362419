# SPDX-License-Identifier: Apache-2.0
"""The manifest: what it may hold, key by key, how it is checked, and its JSON Schema."""

from servekit_archiver.manifest.assets import Asset
from servekit_archiver.manifest.lock import Lock
from servekit_archiver.manifest.manifest import Manifest
from servekit_archiver.manifest.stages import Route, Stage, Step
from servekit_archiver.manifest.tables import (
    DTYPES,
    Batching,
    Cache,
    Example,
    FileInfo,
    Signature,
    StreamSettings,
    Tensor,
    WarmUp,
    WorkerSettings,
)
from servekit_archiver.manifest.texts import RESERVED_NAMES

__all__ = [
    "DTYPES",
    "RESERVED_NAMES",
    "Asset",
    "Batching",
    "Cache",
    "Example",
    "FileInfo",
    "Lock",
    "Manifest",
    "Route",
    "Signature",
    "Stage",
    "Step",
    "StreamSettings",
    "Tensor",
    "WarmUp",
    "WorkerSettings",
]
