"""`python -m symsgd.bench`: the benchmarks of one table each."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console

from symsgd.bench import environment
from symsgd.bench.single import (
    bandwidth,
    curvature,
    dask,
    gpu,
    growth,
    memory,
    parsing,
    refined,
    sequential,
    speedup,
    stores,
    strategies,
    tables,
)

BENCHMARKS = (
    "sequential", "memory", "bandwidth", "growth", "strategies", "curvature", "refined", "speedup",
    "parsing", "tables", "stores", "gpu", "dask",
)  # fmt: skip


def main() -> None:
    """Runs the benchmarks named, or all."""
    parser = argparse.ArgumentParser(prog="python -m symsgd.bench", description="Benchmarks.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHMARKS)}; all if none")
    parser.add_argument("--data-dir", type=Path, help="folder of real data sets with a realdata.py")
    parser.add_argument("--threads", type=int, nargs="+", help="of strategies and speedup (default: all cores, and 1)")
    parser.add_argument("--repeats", type=int, default=5, help="runs of which the fastest counts (default 5)")
    parser.add_argument("--sets", nargs="+", help="data sets of curvature, refined, speedup and dask (default: all)")
    parser.add_argument("--stores", type=Path, help="folder of the stores of dask, made if they are not there")
    parser.add_argument(
        "--scale", type=float, default=1.0, help="of the rows of gpu (default 1.0: 400,000 and 500,000)"
    )
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(BENCHMARKS)
    if unknown:
        parser.error(f"unknown benchmark {', '.join(sorted(unknown))}; there are {', '.join(BENCHMARKS)}")
    console = Console(width=140)
    console.print(environment.describe())
    for name in arguments.names or BENCHMARKS:
        if name == "sequential":
            sequential.run(console, arguments.data_dir, arguments.repeats)
        elif name == "memory":
            memory.run(console)
        elif name == "bandwidth":
            bandwidth.run(console)
        elif name == "strategies":
            threads = tuple(arguments.threads) if arguments.threads else None
            strategies.run(console, arguments.data_dir, arguments.repeats, threads)
        elif name == "curvature":
            curvature.run(console, arguments.data_dir, arguments.sets)
        elif name == "refined":
            refined.run(console, arguments.data_dir, arguments.sets)
        elif name == "speedup":
            speedup.run(console, arguments.data_dir, arguments.repeats, arguments.threads, arguments.sets)
        elif name == "parsing":
            parsing.run(console, arguments.repeats)
        elif name == "stores":
            stores.run(console, arguments.repeats)
        elif name == "gpu":
            gpu.run(console, arguments.scale)
        elif name == "dask":
            dask.run(console, arguments.data_dir, arguments.sets, arguments.stores)
        elif name == "tables":
            tables.run(console, arguments.repeats)
        else:
            growth.run(console)


if __name__ == "__main__":
    main()
