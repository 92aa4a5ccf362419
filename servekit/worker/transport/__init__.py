# SPDX-License-Identifier: Apache-2.0
"""Bodies and answers in shared memory."""
