# SPDX-License-Identifier: Apache-2.0
"""Where older handlers look for ``send_intermediate_predict_response``."""
