# SPDX-License-Identifier: Apache-2.0
"""Many nodes, simulated: what a few machines cannot show. ``python -m tests.simulation``."""
