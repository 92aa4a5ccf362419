# SPDX-License-Identifier: Apache-2.0
"""What users notice when a model is replaced under load, good versions and broken ones.

make swaps
make swaps SWAPS_ARGS="--servers servekit --swaps 3"
make swaps SWAPS_ARGS=--publish                        # docs/benchmarks/swaps.md; ten minutes
"""
