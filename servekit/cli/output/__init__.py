# SPDX-License-Identifier: Apache-2.0
"""Output to a terminal or a pipe."""
