# SPDX-License-Identifier: Apache-2.0
"""The memory held for clients: its limit, its arenas, who is shed first."""
