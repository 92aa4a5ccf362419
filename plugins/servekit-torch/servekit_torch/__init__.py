# SPDX-License-Identifier: Apache-2.0
"""Serves PyTorch models: programs of torch.export, TorchScript, and weights with a class."""
