"""Benchmarks: tables that say the machine, hold an honest baseline in the same run and print ratios.

``python -m symsgd.bench`` (or ``make bench``) runs all of them; give names to choose. See docs/benchmarks.md.
"""
