"""A package, so that `python -m tests.fuzz` finds this folder before another one of its name."""
