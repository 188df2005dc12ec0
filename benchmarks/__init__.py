"""Measurements behind claims about speed and memory. `python -m benchmarks` runs every module with a `measure`."""
