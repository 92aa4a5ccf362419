# SPDX-License-Identifier: Apache-2.0
"""What happens to the cost of a request as models, connections and queues grow tenfold."""
