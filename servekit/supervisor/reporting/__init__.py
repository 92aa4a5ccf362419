# SPDX-License-Identifier: Apache-2.0
"""What the supervisor says to people and keeps for them."""
