# SPDX-License-Identifier: Apache-2.0
"""The zip container: reading it strictly, writing it reproducibly."""
