# SPDX-License-Identifier: Apache-2.0
"""An allow-list of archives."""
