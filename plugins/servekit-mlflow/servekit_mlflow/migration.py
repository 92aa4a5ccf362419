# SPDX-License-Identifier: Apache-2.0
"""The report of ``servekit migrate`` about an MLflow model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from servekit.extension import MigrationRow
from servekit_mlflow.mlmodel import PYFUNC, read_mlmodel
from servekit_mlflow.offer import REQUIREMENTS, describe_model

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["explain"]

ENVIRONMENTS: Final = ("conda.yaml", "python_env.yaml")
SAME_PACKAGES: Final = "requirements.txt has the same packages"


def explain(directory: Path) -> Iterator[MigrationRow]:
    """Yield a row for each thing that the model in *directory* says.

    :raises BootError: its ``MLmodel`` is not one that can be served.
    """
    model, offer = read_mlmodel(directory), describe_model(directory)
    for flavour in model.flavors:
        if flavour == PYFUNC:
            yield MigrationRow(f"flavour {flavour}", 'service = "mlflow"')
        else:
            yield MigrationRow(f"flavour {flavour}", note=f"loaded as {PYFUNC}")
    if "version" in offer:
        yield MigrationRow("utc_time_created", f'version = "{offer["version"]}"')
    if model.signature is not None:
        note = "read from MLmodel when the model is loaded"
        yield MigrationRow("signature", "the inputs of /MODEL/predict", note)
    if model.saved_input_example_info is not None:
        is_used = "examples" in offer
        note = "" if is_used else "not a table whose values all fit their columns"
        yield MigrationRow("input example", "[[examples]]" if is_used else "", note)
    if REQUIREMENTS in offer.values():
        yield MigrationRow(REQUIREMENTS, f'requirements = "{REQUIREMENTS}"')
    for name in ENVIRONMENTS:
        if (directory / name).is_file():
            yield MigrationRow(name, note=SAME_PACKAGES)
