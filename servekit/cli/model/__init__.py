# SPDX-License-Identifier: Apache-2.0
"""What the commands know of a model that is not served."""
