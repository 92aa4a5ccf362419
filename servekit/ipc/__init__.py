# SPDX-License-Identifier: Apache-2.0
"""What crosses between the processes: messages, frames, shared memory."""
