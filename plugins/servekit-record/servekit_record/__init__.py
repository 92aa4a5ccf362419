# SPDX-License-Identifier: Apache-2.0
"""Records requests of a running server and replays them against another version."""
