# SPDX-License-Identifier: Apache-2.0
"""A directory of archives: which of them to serve, and how the server follows its changes."""
