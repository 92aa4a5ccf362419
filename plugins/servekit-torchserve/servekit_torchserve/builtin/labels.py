# SPDX-License-Identifier: Apache-2.0
"""``index_to_name.json``: the names of the classes of a model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["LABELS_FILE", "load_label_mapping", "map_class_to_label"]

LABELS_FILE: Final = "index_to_name.json"


def load_label_mapping(path: str | Path) -> dict[str, str] | None:
    """Return the names of the classes by their numbers; ``None`` if there is no such file.

    A name may also be a list, such as that of ImageNet: its last element counts.

    :raises ValueError: it is not a mapping in JSON.
    """
    file = Path(path)
    if not file.is_file():
        return None
    table = json.loads(file.read_text(encoding="utf-8"))
    if isinstance(table, dict) and "object_type_names" in table:
        table = dict(enumerate(table["object_type_names"]))
    if not isinstance(table, dict):
        raise ValueError(f"{file.name}: is not a mapping of numbers to names")  # noqa: TRY004 - of a file
    return {str(key): name[-1] if isinstance(name, list) else name for key, name in table.items()}


def map_class_to_label(
    probs: Sequence[Sequence[float]],
    mapping: Mapping[str, Any] | None = None,
    lbl_classes: Sequence[Sequence[int]] | None = None,
) -> list[dict[str, float]]:
    """Return label and probability for each of *probs*, a list for each input.

    :param lbl_classes: the classes of the probabilities; default: 0, 1, 2 ...
    """
    classes = lbl_classes or [range(len(each)) for each in probs]
    return [
        {
            str(mapping[str(number)]) if mapping is not None else str(number): probability
            for number, probability in zip(numbers, found, strict=True)
        }
        for numbers, found in zip(classes, probs, strict=True)
    ]
