# SPDX-License-Identifier: Apache-2.0
"""Reads an estimator from its file."""

import warnings
from collections.abc import Sequence
from logging import Logger
from pathlib import Path
from typing import Any

from sklearn.exceptions import InconsistentVersionWarning

from servekit.errors import BootError

__all__ = ["read_model"]

UNCOMPRESSED_PICKLE = b"\x80"  # opcode PROTO; a compressed file begins with its own magic


def read_model(path: Path, trusted: Sequence[str], logger: Logger) -> Any:
    """Return the estimator in *path*; what scikit-learn warns of is logged.

    :raises BootError: a ``.skops`` file holds types that nobody trusts.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = _read_skops(path, trusted) if path.suffix == ".skops" else _read_joblib(path)
    _log_warnings(path, caught, logger)
    return model


def _read_joblib(path: Path) -> Any:
    import joblib

    with path.open("rb") as file:
        is_uncompressed = file.read(1) == UNCOMPRESSED_PICKLE
    # mapped arrays are shared by all replicas of the model
    return joblib.load(path, mmap_mode="r" if is_uncompressed else None)


def _read_skops(path: Path, trusted: Sequence[str]) -> Any:
    from skops import io

    unknown = io.get_untrusted_types(file=path)
    untrusted = sorted(set(unknown) - set(trusted))
    if untrusted:
        raise BootError(
            f"{path.name} holds types that are not trusted: {', '.join(untrusted)}; "
            "name those you trust in [options] trusted"
        )
    return io.load(path, trusted=unknown)


def _log_warnings(path: Path, caught: Sequence[warnings.WarningMessage], logger: Logger) -> None:
    """Log every warning; one estimator of many warns once per part, so versions are told once."""
    saved_by = set()
    for warning in caught:
        if isinstance(warning.message, InconsistentVersionWarning):
            told = warning.message
            saved_by.add((told.original_sklearn_version, told.current_sklearn_version))
        else:
            logger.warning("%s: %s", path.name, warning.message)
    for original, current in sorted(saved_by):
        logger.warning(
            "%s was saved by scikit-learn %s and is served by %s: answers may differ",
            path.name, original, current,
        )  # fmt: skip
