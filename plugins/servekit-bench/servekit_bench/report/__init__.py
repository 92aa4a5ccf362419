# SPDX-License-Identifier: Apache-2.0
"""The results of ``servekit bench``: figures, and how they are shown.

figures        the numbers of a report, which are also its JSON
distributions  histograms and curves of percentiles
verdict        whether two targets differ
bench_report   all results of a run
words          figures in words
limits         the limit of a target in words
table          text for a terminal
plot           plots as SVG
page           one HTML file, made of tables and plots
bench_page     the file of a report
"""
