# SPDX-License-Identifier: Apache-2.0
def main() -> int:
    return 0
