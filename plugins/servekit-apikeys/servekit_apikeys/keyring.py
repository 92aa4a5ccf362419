# SPDX-License-Identifier: Apache-2.0
"""The file of keys, and what a key opens."""

import hashlib
import math
import tomllib
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from time import monotonic
from typing import Annotated

import msgspec
from msgspec import Meta

from servekit.errors import (
    Forbidden,
    InvalidToken,
    PluginError,
    TooManyRequests,
    Unauthorized,
)
from servekit.extension import Identity
from servekit_apikeys.bucket import Bucket

__all__ = ["NAME", "PATTERN", "Key", "Keyring", "digest", "read_keys"]

NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z"  # "$" would accept a newline
PATTERN = r"^[A-Za-z0-9._*?-]{1,64}\Z"
SCHEME = "bearer "


class Key(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One ``[[keys]]`` of the file. The key itself is not in it."""

    name: Annotated[str, Meta(pattern=NAME)]
    sha256: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
    models: tuple[Annotated[str, Meta(pattern=PATTERN)], ...] = ("*",)
    rate: Annotated[float, Meta(ge=0)] = 0  #: requests a second; 0 is no limit
    burst: Annotated[int, Meta(ge=0)] = 0  #: requests at once; 0 is a second's worth

    def __post_init__(self) -> None:
        """Refuse NaN and infinity, which the lower bound accepts."""
        if not math.isfinite(self.rate):
            raise ValueError(f"rate: {self.rate} is not a number")

    @property
    def identity(self) -> Identity:
        """Whose requests have the key."""
        return Identity(self.name)

    def opens(self, model: str) -> bool:
        """Whether one of the patterns fits *model*."""
        return any(fnmatchcase(model, pattern) for pattern in self.models)


class KeyFile(msgspec.Struct, forbid_unknown_fields=True):
    """The whole file."""

    keys: list[Key] = []


class Keyring:
    """Judges requests by their key."""

    def __init__(self, keys: Sequence[Key], clock: Callable[[], float] = monotonic) -> None:
        """Give each key that has a rate its own bucket."""
        self._keys = {key.sha256: key for key in keys}
        self._buckets = {
            key.sha256: Bucket(key.rate, key.burst or max(1.0, key.rate), clock)
            for key in keys
            if key.rate
        }

    def judge(
        self, authorization: str | None, model: str, *, is_counted: bool = True
    ) -> Identity | Unauthorized | Forbidden | TooManyRequests:
        """Return whose key it is, or why a prediction of *model* is refused.

        Keys are looked up by digest, so the time it takes tells nothing of a key.

        :param is_counted: it takes of the key's rate; reading a job does not.
        """
        if authorization is None or not authorization.lower().startswith(SCHEME):
            return Unauthorized("an API key is needed, as a bearer token")
        found = digest(authorization[len(SCHEME) :])
        key = self._keys.get(found)
        if key is None:
            return InvalidToken("this API key is not known")
        if not key.opens(model):
            return Forbidden("this API key is not for this model")
        bucket = self._buckets.get(found)
        wait_s = bucket.take() if bucket and is_counted else 0.0
        return TooManyRequests(retry_after_s=math.ceil(wait_s)) if wait_s else key.identity


def digest(key: str) -> str:
    """Return what the file holds of *key*."""
    return hashlib.sha256(key.encode(errors="surrogateescape")).hexdigest()


def read_keys(path: Path) -> list[Key]:
    """Return the keys of a file.

    :raises PluginError: it cannot be read, or is not as it should be.
    """
    try:
        keys = msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), KeyFile).keys
    except OSError as error:
        raise PluginError(f"{path}: {error.strerror}") from error
    except ValueError as error:  # TOML, UTF-8 or a key of the wrong type
        raise PluginError(f"{path}: {error}") from error
    for field in ("name", "sha256"):
        if len({getattr(key, field) for key in keys}) < len(keys):
            raise PluginError(f"{path}: two keys have one {field}")
    return keys
