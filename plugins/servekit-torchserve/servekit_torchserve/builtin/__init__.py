# SPDX-License-Identifier: Apache-2.0
"""The handlers that an archive can name without a file, and the base class of most others."""
