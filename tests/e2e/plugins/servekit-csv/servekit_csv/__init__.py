"""Rows of CSV files as inputs: a protocol, a page about it, and a command that uses it."""
