# SPDX-License-Identifier: Apache-2.0
"""The handlers that come with TorchServe."""
