# SPDX-License-Identifier: Apache-2.0
"""Serves the archives of torch-model-archiver, and answers the clients of TorchServe."""
