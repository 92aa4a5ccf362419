# SPDX-License-Identifier: Apache-2.0
"""Answers that are written token by token, many in each step."""
