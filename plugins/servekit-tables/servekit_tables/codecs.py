# SPDX-License-Identifier: Apache-2.0
"""The codecs of tables: rows in, and what ``predict`` returned for them out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from servekit.errors import BodyMalformed
from servekit.extension import Rows
from servekit_tables.columns import ArrowColumn
from servekit_tables.reading import read_csv, read_parquet
from servekit_tables.writing import table_of

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["CsvCodec", "ParquetCodec", "csv", "parquet"]


class CsvCodec:
    """``text/csv`` (RFC 4180); the first row has names unless ``header=absent`` says otherwise."""

    def decode(self, body: bytes, parameters: Mapping[str, str]) -> Rows:
        """Return the rows of *body*.

        :raises BodyMalformed: it is not such a table.
        """
        if not body.strip():
            raise BodyMalformed("table: empty")
        has_header = parameters.get("header", "present").lower() != "absent"
        return _rows(read_csv(bytes(body), has_header=has_header))

    def encode(self, output: Any) -> bytes:
        """Return the table of *output*, with a row of names."""
        sink = pa.BufferOutputStream()
        pyarrow.csv.write_csv(
            table_of(output, is_flat=True),
            sink,
            pyarrow.csv.WriteOptions(quoting_style="needed"),
        )
        return bytes(sink.getvalue())


class ParquetCodec:
    """``application/vnd.apache.parquet``."""

    takes_views = True

    def decode(self, body: bytes, parameters: Mapping[str, str]) -> Rows:  # noqa: ARG002
        """Return the rows of *body*.

        :raises BodyMalformed: it is not such a table.
        """
        return _rows(read_parquet(body))

    def encode(self, output: Any) -> bytes:
        """Return the table of *output*."""
        sink = pa.BufferOutputStream()
        pyarrow.parquet.write_table(table_of(output, is_flat=False), sink)
        return bytes(sink.getvalue())


def _rows(table: Any) -> Rows:
    columns = zip(table.column_names, table.columns, strict=True)
    return Rows({name: ArrowColumn(values) for name, values in columns}, table.num_rows)


csv, parquet = CsvCodec(), ParquetCodec()
