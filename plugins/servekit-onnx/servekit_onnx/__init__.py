# SPDX-License-Identifier: Apache-2.0
"""Serves ONNX graphs with onnxruntime."""
