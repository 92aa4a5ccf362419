# SPDX-License-Identifier: Apache-2.0
"""The channel to one front-end: messages, shared memory."""
