# SPDX-License-Identifier: Apache-2.0
"""``mms.utils.mxnet.ndarray`` and ``mms.utils.mxnet.nlp`` without MXNet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from servekit_mms.images import as_array

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["encode_sentences", "top_probability"]


def top_probability(data: Any, labels: Sequence[str], top: int = 5) -> list[dict[str, Any]]:
    """Return the *top* most likely labels of one prediction, ``[1, n]`` or ``[n]``."""
    row = as_array(data).reshape(-1)
    best = np.argsort(row)[::-1][:top]
    return [{"probability": float(row[place]), "class": labels[place]} for place in best]


def encode_sentences(
    sentences: Sequence[Sequence[str]],
    vocab: dict[str, int] | None = None,
    invalid_label: int = -1,
    invalid_key: str = "\n",
    start_label: int = 0,
) -> tuple[list[list[int]], dict[str, int]]:
    """Return the numbers of all tokens, and the vocabulary.

    :param vocab: token to number, which must hold all of them; without it, one is made: numbers go
        up from *start_label* and leave out *invalid_label*, which is that of *invalid_key*.
    """
    is_new = vocab is None
    known = {invalid_key: invalid_label} if vocab is None else vocab
    number = start_label
    for sentence in sentences:
        for token in sentence:
            if token in known:
                continue
            assert is_new, f"Unknown token {token}"
            number += number == invalid_label
            known[token] = number
            number += 1
    return [[known[token] for token in sentence] for sentence in sentences], known
