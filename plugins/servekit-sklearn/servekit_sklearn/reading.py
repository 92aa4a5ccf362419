# SPDX-License-Identifier: Apache-2.0
"""Reads an estimator from its file."""

import warnings
from collections.abc import Sequence
from logging import Logger
from pathlib import Path
from typing import Any

from sklearn.exceptions import InconsistentVersionWarning

from servekit.errors import BootError

__all__ = ["check_estimator", "read_model"]

REASON_CHARS = 200  #: characters of a reader's message

UNCOMPRESSED_PICKLE = b"\x80"  # opcode PROTO; a compressed file begins with its own magic


def read_model(path: Path, trusted: Sequence[str], logger: Logger) -> Any:
    """Return the estimator in *path*; what scikit-learn warns of is logged.

    :raises BootError: the file cannot be read, or is a ``.skops`` file and holds types that nobody
        trusts.
    """
    reader = "skops" if path.suffix == ".skops" else "joblib"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model = _read_skops(path, trusted) if reader == "skops" else _read_joblib(path)
        except BootError:
            raise
        except Exception as error:  # noqa: BLE001 - a pickle, or what it imports, may raise anything
            reason = str(error).split("\n")[0][:REASON_CHARS]
            said = f"{type(error).__name__}: {reason}" if reason else type(error).__name__
            raise BootError(f"{path.name}: {reader} cannot read it ({said})") from None
    _log_warnings(path, caught, logger)
    return model


def check_estimator(model: Any, path: Path) -> None:
    """Refuse what has no parameters, as every estimator has.

    :raises BootError: *model*, which was in *path*, is something else.
    """
    if isinstance(model, type) or not callable(getattr(model, "get_params", None)):
        kind = model.__name__ if isinstance(model, type) else type(model).__name__
        what = "the class" if isinstance(model, type) else "an object of type"
        raise BootError(f"{path.name}: holds {what} {kind}, expected a fitted estimator")


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
    """Log every warning; one estimator of many warns once per part, so versions are logged once."""
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
