# SPDX-License-Identifier: Apache-2.0
"""Bodies to tables, within limits: a small file may claim to be a large table."""

from __future__ import annotations

import json
from itertools import cycle
from typing import Any, Final

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from servekit.errors import BodyMalformed
from servekit_tables.pages import unpacked_bytes

__all__ = ["read_csv", "read_parquet"]

MAX_CELLS: Final = 1 << 26  #: elements of all columns together
#: any Parquet file may have so many elements, and more for each byte: equal ones take no bytes
SPARE_CELLS: Final = 1 << 22
CELLS_PER_BYTE: Final = 64
NUMBER_BYTES: Final = 8  #: a longer element of a fixed length counts as several
MAX_BYTES: Final = 1 << 29  #: bytes that a Parquet file takes without its compression
MAX_COLUMNS: Final = 1 << 14
MAX_GROUPS: Final = 1 << 14
BATCH: Final = 1 << 16  #: rows that are read at once
REASON_CHARS: Final = 200  #: characters of a message of pyarrow


def read_csv(body: bytes, *, has_header: bool) -> Any:
    """Return the table in *body*, whose columns are all text.

    :param has_header: the first row has the names of columns; otherwise they are ``0``, ``1`` ...
    :raises BodyMalformed: it is not CSV with as many elements in each row.
    """
    names = _names(body)
    if not has_header:
        names = [str(place) for place in range(len(names))]
    _check_names(names)
    try:
        return pyarrow.csv.read_csv(
            pa.BufferReader(body),
            pyarrow.csv.ReadOptions(
                use_threads=False, column_names=names, skip_rows=int(has_header)
            ),
            pyarrow.csv.ParseOptions(newlines_in_values=True),
            pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False
            ),
        )
    except pa.ArrowInvalid as error:
        if "Empty CSV" in str(error):  # only a header
            return pa.table({name: pa.array([], pa.string()) for name in names})
        raise _malformed(error) from None


def _names(body: bytes) -> list[str]:
    """Return the elements of the first row."""
    options = pyarrow.csv.ReadOptions(use_threads=False)
    parsing = pyarrow.csv.ParseOptions(newlines_in_values=True)
    try:
        with pyarrow.csv.open_csv(pa.BufferReader(body), options, parsing) as reader:
            return list(reader.schema.names)
    except (pa.ArrowInvalid, UnicodeDecodeError) as error:
        raise _malformed(error) from None


def read_parquet(body: bytes) -> Any:
    """Return the table in *body*, without the index of a data frame.

    :raises BodyMalformed: it is not a Parquet file, or one of a table that is too large.
    """
    try:
        file = pyarrow.parquet.ParquetFile(
            pa.BufferReader(body),
            thrift_string_size_limit=1 << 24,
            thrift_container_size_limit=1 << 20,
        )
        _check_size(file, body)
        schema = file.schema_arrow
        leaves = map(file.schema.column, range(file.metadata.num_columns))
        # repeated text stays one text, within lists too
        texts = [leaf.path for leaf in leaves if leaf.physical_type == "BYTE_ARRAY"]
        file = pyarrow.parquet.ParquetFile(pa.BufferReader(body), read_dictionary=texts)
        batches, size = [], 0
        for batch in file.iter_batches(BATCH, use_threads=False):
            size += batch.nbytes
            if size > MAX_BYTES:
                raise _too_large(f"over {MAX_BYTES >> 20} MiB")
            batches.append(batch)
        table = pa.Table.from_batches(batches, file.schema_arrow)
        table.validate(full=True)  # an index may lie outside of its dictionary
    except (pa.ArrowException, OSError, ValueError, RecursionError) as error:
        raise _malformed(error) from None
    _check_names(table.column_names)
    return table.drop_columns(_index_columns(schema.metadata or {}, table.column_names))


def _check_size(file: Any, body: bytes) -> None:
    metadata, body_bytes = file.metadata, len(body)
    columns, groups = metadata.num_columns, metadata.num_row_groups
    if columns > MAX_COLUMNS:
        raise _too_large(f"{columns} columns, limit {MAX_COLUMNS}")
    if groups > MAX_GROUPS:
        raise _too_large(f"{groups} row groups, limit {MAX_GROUPS}")
    for place in range(groups):
        # no rows are read, but errors raised: in ``column`` below, they would end the process
        next(file.reader.iter_batches(0, [place], use_threads=False), None)
    found = [metadata.row_group(place) for place in range(groups)]
    chunks = [group.column(place) for group in found for place in range(columns)]
    sizes = [max(file.schema.column(place).length // NUMBER_BYTES, 1) for place in range(columns)]
    counted = sum(
        chunk.num_values * size for chunk, size in zip(chunks, cycle(sizes), strict=False)
    )
    cells = max(counted, metadata.num_rows * columns)
    limit = min(SPARE_CELLS + CELLS_PER_BYTE * body_bytes, MAX_CELLS)
    if cells > limit:
        raise _too_large(f"{cells} elements in {body_bytes} bytes, limit {limit}")
    size = unpacked_bytes(body, chunks)
    if size > MAX_BYTES:
        raise _too_large(f"{size} bytes, limit {MAX_BYTES}")


def _index_columns(metadata: Any, names: list[str]) -> list[str]:
    """Return the columns that pandas has made of an index."""
    try:
        found = json.loads(metadata.get(b"pandas", b"{}")).get("index_columns", [])
    except (ValueError, AttributeError):  # written by somebody else
        return []
    is_index = [name for name in found if isinstance(name, str) and name in names]
    return is_index if len(is_index) < len(names) else []


def _check_names(names: list[str]) -> None:
    if len(names) > MAX_COLUMNS:
        raise _too_large(f"{len(names)} columns, limit {MAX_COLUMNS}")
    if "" in names:
        hint = "; pandas writes its index so, unless to_csv(index=False) is called"
        raise BodyMalformed(f"table: column {names.index('') + 1} has no name{hint}")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise BodyMalformed(f"table: two columns are called {twice[:80]!r}")


def _too_large(what: str) -> BodyMalformed:
    return BodyMalformed(f"table: {what}")


def _malformed(error: Exception) -> BodyMalformed:
    return BodyMalformed(f"table: {' '.join(str(error).split())[:REASON_CHARS]}")
