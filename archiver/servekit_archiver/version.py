# SPDX-License-Identifier: Apache-2.0
"""The version of this distribution, and of the format that it reads and writes."""

from typing import Final

__all__ = ["CREATED_BY", "FORMAT", "__version__"]

__version__: Final = "0.1.0"
FORMAT: Final = 1  #: goes up when an older reader would misread a newer archive
CREATED_BY: Final = f"servekit-archiver {__version__}"
