# SPDX-License-Identifier: Apache-2.0
"""What crosses between the supervisor and a prepare child; apart, so that the child starts soon."""

import msgspec

__all__ = ["PrepareOutcome", "PrepareRequest", "PreparedModel", "PreparedStage"]


class PrepareRequest(msgspec.Struct, array_like=True):
    """What the child is asked."""

    path: str  #: or a URL that a plugin opens
    name: str = ""  #: serve it under this name; "" keeps the manifest's
    cache_dir: str = ""  #: "" takes the user's
    install_requirements: bool = False
    fetch_assets: bool = False
    worker_user: str = ""  #: who must be able to read it; "" is us
    scratch: str = ""  #: a directory that may be made, for what a plugin gets from a URL
    required_plugins: list[str] = []


class PreparedStage(msgspec.Struct, kw_only=True):
    """One stage of it; a model without stages has one, that is nameless."""

    name: str
    manifest: bytes  #: that of a model which is nothing but this stage
    replicas: int
    max_batch_size: int
    max_delay_s: float
    predict_timeout_s: float
    load_timeout_s: float
    environments: list[dict[str, str]]  #: of the replicas, in turn
    beside: list["PreparedStage"] = []  #: stages that its workers load too


class PreparedModel(msgspec.Struct, kw_only=True):
    """A model that can be launched."""

    name: str
    version: str
    description: str
    source: str  #: the path or URL that the operator named
    directory: str
    python: str  #: the interpreter of its environment
    manifest: bytes  #: the ``MANIFEST.json``, with the name it is served under
    stages: list[PreparedStage]
    may_retry: bool
    size_bytes: int  #: of all its files
    assets: dict[str, str] = {}  #: name to path, all of them there
    digest: str  #: differs where the files do
    user: str = ""  #: that its workers run as; "" is us
    scratch: str = ""  #: to be removed when the model is not served any more; "" if there is none

    @property
    def label(self) -> str:
        """Name and version."""
        return f"{self.name}/{self.version}"


class PrepareOutcome(msgspec.Struct, kw_only=True):
    """What the child answers: steps while it works, and at the end a model or an error."""

    step: str = ""
    model: PreparedModel | None = None
    error: str = ""  #: one line for each problem
