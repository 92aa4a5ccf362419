# SPDX-License-Identifier: Apache-2.0
"""How much an archive may hold before it is refused."""

from dataclasses import dataclass
from typing import Final

__all__ = [
    "DEFAULT_LIMITS",
    "MANIFEST_BYTES",
    "MODEL_TOML_BYTES",
    "NESTING",
    "SIGNATURE_BYTES",
    "Limits",
]

GIB: Final = 1 << 30

MODEL_TOML_BYTES: Final = 1 << 20
MANIFEST_BYTES: Final = 4 << 20  #: room for 10,000 files with long names
SIGNATURE_BYTES: Final = 2 * MANIFEST_BYTES  #: it lists the digests of all files, too
NESTING: Final = 32  #: levels of lists and tables in a manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of a reader. The writer never exceeds the defaults."""

    entries: int = 10_000
    file_bytes: int = 64 * GIB
    total_bytes: int = 256 * GIB
    ratio: int = 200  #: unpacked to packed size, for entries above ``ratio_from_bytes``
    ratio_from_bytes: int = 1 << 20  #: small files may be as repetitive as they like

    def exceeds_ratio(self, size: int, packed_size: int) -> bool:
        """Say whether an entry unpacks to suspiciously more than it takes in the archive."""
        return size > self.ratio_from_bytes and size > self.ratio * packed_size


DEFAULT_LIMITS: Final = Limits()
