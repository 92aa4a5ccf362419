# SPDX-License-Identifier: Apache-2.0
"""Services whose outputs come one by one."""
