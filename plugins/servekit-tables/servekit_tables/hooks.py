# SPDX-License-Identifier: Apache-2.0
"""The hooks of this plugin; imports nothing of pyarrow."""

from collections.abc import Mapping

from servekit import hookimpl
from servekit.hookspecs import CodecTarget

__all__ = ["register_codecs"]

TABLE = ["table"]


@hookimpl
def register_codecs() -> Mapping[str, str]:
    """Offer CSV and Parquet, both ways."""
    return {
        name: CodecTarget(f"servekit_tables.codecs:{target}", reads=TABLE, writes=TABLE)
        for name, target in {
            "text/csv": "csv",
            "application/vnd.apache.parquet": "parquet",
        }.items()
    }
