# SPDX-License-Identifier: Apache-2.0
"""The checks of ``servekit doctor``: of this machine and its settings, and of a running server."""
