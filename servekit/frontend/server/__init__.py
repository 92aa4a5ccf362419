# SPDX-License-Identifier: Apache-2.0
"""The front-end process: it accepts connections, keeps time and shuts down."""
