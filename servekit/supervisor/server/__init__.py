# SPDX-License-Identifier: Apache-2.0
"""The supervisor itself: start-up, control, shutdown."""
