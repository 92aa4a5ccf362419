# SPDX-License-Identifier: Apache-2.0
"""How many rows the body of a request may hold: each may become a call of ``predict``."""

from collections.abc import Iterable
from typing import Any, Final

from servekit.errors import InputError
from servekit.extension.envelope import Rows

__all__ = ["check_counts"]

#: rows that any body may hold, though rows without elements take no bytes, nor do most of those
#: that are equal where they are compressed
SPARE_ROWS: Final = 1 << 16
#: further rows: Parquet has as many booleans in a byte
ROWS_PER_BYTE: Final = 8


def check_counts(inputs: Iterable[Any], size: int) -> None:
    """Check those of *inputs* that are ``Rows``, which were read from a body of *size* bytes.

    :raises InputError: there are more rows than such a body may hold.
    """
    limit = SPARE_ROWS + ROWS_PER_BYTE * size
    for each in inputs:
        if type(each) is Rows and each.count > limit:
            found = f"{str(each.count)[:20]} rows in a body of {size} bytes, limit {limit}"
            raise InputError(f"{found}; send them in several requests")
