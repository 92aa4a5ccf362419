# SPDX-License-Identifier: Apache-2.0
"""The observer: the process that notifies plugins of events.

The supervisor sends it the events of servers, models and workers, and the log; the front-ends
send samples of batches. A plugin that is slow, or that crashes, loses events here and harms
nothing else.
"""
