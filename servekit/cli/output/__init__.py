# SPDX-License-Identifier: Apache-2.0
"""What a terminal or a pipe is shown."""
