# SPDX-License-Identifier: Apache-2.0
"""``/docs``: a page where people read the API of a server, and try it."""
