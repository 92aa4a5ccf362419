# SPDX-License-Identifier: Apache-2.0
"""Operations on a running server: checked, carried out step by step, remembered."""
