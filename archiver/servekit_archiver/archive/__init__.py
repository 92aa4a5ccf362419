# SPDX-License-Identifier: Apache-2.0
"""Archives: written from a directory, opened, verified, extracted."""
