# SPDX-License-Identifier: Apache-2.0
"""``servekit.serve``: a server as a child of a Python program."""
