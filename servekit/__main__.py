# SPDX-License-Identifier: Apache-2.0
"""``python -m servekit``."""

import sys

from servekit.cli import main

if __name__ == "__main__":
    sys.exit(main())
