"""Systems under test, one a file: ours, and what people use today."""
