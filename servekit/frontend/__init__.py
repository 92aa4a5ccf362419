# SPDX-License-Identifier: Apache-2.0
"""The gevent process that speaks HTTP and batches: connection, router, admission, batcher, replica.

A request's way: ``connection.py`` parses it, ``router.py`` finds its model, ``admission.py``
takes or refuses it, ``batcher.py`` queues it and makes batches, ``replica.py`` sends a batch
to its worker and hands the answers back to the connections they came from.
"""
