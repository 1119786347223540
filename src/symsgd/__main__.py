"""`python -m symsgd`."""

from symsgd.cli import main

if __name__ == "__main__":
    main(prog_name="symsgd")
