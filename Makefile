# make demo: the whole pipeline on the embedded digits, on the CPU
# make check: style, types and the quick tests, for every edit    make test: every check, from a clean clone too
# make pdf: all existing tables and figures in one document (SCALE=demo for the demo's)
# make report: one page with all results, for a browser
PYTHON ?= python3
BIN := .venv/bin
export PATH := $(abspath $(BIN)):$(PATH)

SCALE ?= paper

.PHONY: demo check test lint pdf report install clean

demo: $(BIN)/.installed
	rtm demo

# a worker takes one file after the other, in the order of tests/conftest.py
PYTEST = OMP_NUM_THREADS=1 pytest -q -n auto --dist loadfile --no-loadscope-reorder

check: lint
	$(PYTEST) -m "not slow"

test: lint
	$(PYTEST)

lint: $(BIN)/.installed
	ruff check .
	ruff format --check .
	mypy
	snakemake --lint

pdf: $(BIN)/.installed
	rtm pdf --scale $(SCALE)

report: $(BIN)/.installed
	rtm report --scale $(SCALE)

install: $(BIN)/.installed

$(BIN)/.installed: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "RTM needs Python 3.11 or newer: make PYTHON=python3.12 demo")'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "Installing into .venv: several GB, a few minutes."
	$(BIN)/python -m pip install --disable-pip-version-check --progress-bar off --quiet --editable '.[dev]'
	touch $@

clean:
	rm -rf demo smoke .snakemake
