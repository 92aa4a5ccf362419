# SPDX-License-Identifier: Apache-2.0
"""The exit statuses of ``servekit-archive``."""

from typing import Final

__all__ = ["INTERRUPTED", "OK", "REFUSED", "TERMINATED", "USAGE"]

OK: Final = 0
REFUSED: Final = 1  #: the archive, the directory or the file system said no; stderr says why
USAGE: Final = 2  #: the command line is wrong; what argparse exits with
INTERRUPTED: Final = 130  #: Ctrl-C
TERMINATED: Final = 143  #: SIGTERM
