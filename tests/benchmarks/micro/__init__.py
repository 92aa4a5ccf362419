# SPDX-License-Identifier: Apache-2.0
"""Single steps of the serve path, timed in one process."""
