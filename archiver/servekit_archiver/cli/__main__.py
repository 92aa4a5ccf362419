# SPDX-License-Identifier: Apache-2.0
"""``python -m servekit_archiver.cli``: the same as ``servekit-archive``."""

import sys

from servekit_archiver.cli import main

sys.exit(main())
