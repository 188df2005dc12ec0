"""Speed and memory claims, measured: `python -m benchmarks` runs every module here that has a `measure`."""
