# SPDX-License-Identifier: Apache-2.0
"""The files of ``--log-dir``: written by a separate process, read by ``servekit logs``."""
