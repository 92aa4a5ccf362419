# SPDX-License-Identifier: Apache-2.0
"""Pickles between the stages of one model, if its manifest has ``pickle``; else not imported.

They come from another worker of the same archive. The front-end lets no other bytes have the media
types of such values, and a step of another model makes it use those that hold no pickles.
"""

import pickle
from typing import Any

from servekit.worker.codecs.value_writer import Pickles

__all__ = ["pickles"]


def write(value: Any) -> bytes:
    """Return *value* as a pickle.

    :raises TypeError: it has none.
    """
    try:
        return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    except Exception as error:  # an author's class may raise anything
        raise TypeError(f"a {type(value).__name__} cannot be pickled: {error}") from error


def read(pickled: memoryview) -> Any:
    """Return the value of a pickle that another stage of this model has written."""
    return pickle.loads(pickled)  # noqa: S301 - see above


pickles = Pickles(write, read)
