# SPDX-License-Identifier: Apache-2.0
"""Communication between the processes: messages, frames, shared memory."""
