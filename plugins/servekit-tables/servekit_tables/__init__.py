# SPDX-License-Identifier: Apache-2.0
"""CSV and Parquet bodies: many inputs in one request, and their outputs as a table."""
