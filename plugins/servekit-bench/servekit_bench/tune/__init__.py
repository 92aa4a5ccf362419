# SPDX-License-Identifier: Apache-2.0
"""``servekit tune``: finds the settings of a model for a latency that must be kept.

candidate    settings that are tried
serving      a server with these settings, and what its processes use
bursts       batches of a chosen size, timed by the worker
costs        what a batch costs by its size
probing      measures the costs: batches, memory, threads
simulation   how a server with given costs answers
planning     which candidates could be best
trials       a load on a server, and the highest rate that keeps the latency
search       all of it within the budget
outcome      the recommended settings, and how sure they are
lab          real servers for the search
machine      cores and memory that it may use
text, page   the outcome for people and programs
"""
