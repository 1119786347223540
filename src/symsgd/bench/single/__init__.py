"""Benchmarks of one table each, for one question each: ``python -m symsgd.bench NAME``."""
