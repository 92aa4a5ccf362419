# SPDX-License-Identifier: Apache-2.0
"""The messages of ``servekit check`` to a worker and back, and the comparison of outputs."""
