# SPDX-License-Identifier: Apache-2.0
"""Gets archives and assets through fsspec."""
