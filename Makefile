# make demo: the whole pipeline on the embedded digits, on the CPU
# make check: style, types and the quick tests, for every edit    make test: every check, from a clean clone too
# make pdf: all existing tables and figures in one document (SCALE=demo for the demo's)
# make report: one page with all results, for a browser
# make install: the tested versions, by their hashes (requirements.lock)
#   TORCH=cpu: without CUDA, 1.5 GB instead of 5.5, from PyTorch's own index
#   LOCK=: the newest versions that pyproject.toml allows
# make lock: write requirements.lock again after a change of pyproject.toml
PYTHON ?= python3
TORCH ?= cuda
LOCK ?= requirements.lock
BIN := .venv/bin
export PATH := $(abspath $(BIN)):$(PATH)

SCALE ?= paper

.PHONY: demo check test quick every lint style types pdf report install lock clean

demo: $(BIN)/.installed
	rtm demo

# each worker takes one file after the other, in the order of tests/conftest.py; the final list has the slowest tests
PYTEST = OMP_NUM_THREADS=1 pytest -q -n auto --dist loadfile --no-loadscope-reorder --durations=15 --durations-min=1

check: style
	$(MAKE) --no-print-directory --jobs 2 types quick

test: style
	$(MAKE) --no-print-directory --jobs 2 types every

quick: $(BIN)/.installed
	$(PYTEST) -m "not slow"

every: $(BIN)/.installed
	$(PYTEST)

lint: style types

style: $(BIN)/.installed
	ruff check .
	ruff format --check .

types: $(BIN)/.installed
	mypy
	snakemake --lint

pdf: $(BIN)/.installed
	rtm pdf --scale $(SCALE)

report: $(BIN)/.installed
	rtm report --scale $(SCALE)

install: $(BIN)/.installed

PIP = $(BIN)/python -m pip install --disable-pip-version-check --progress-bar off --quiet
TORCH_PINS = $(shell sed -nE 's/^(torch|torchvision)(==[^ ]+).*/\1\2/p' $(LOCK))

$(BIN)/.installed: pyproject.toml $(LOCK)
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "RTM needs Python 3.11 or newer: make PYTHON=python3.12 demo")'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "Installing into .venv: several GB, a few minutes."
ifeq ($(LOCK),)
	$(PIP) --editable '.[dev]'
else ifeq ($(TORCH),cpu)
	$(PIP) --no-deps --index-url https://download.pytorch.org/whl/cpu $(TORCH_PINS)
	awk '/^[a-z]/ {kept = !/^(torch|torchvision|triton|nvidia-[a-z0-9-]+|cuda-[a-z-]+)==/} kept' $(LOCK) > .venv/cpu.lock
	$(PIP) --no-deps --require-hashes --requirement .venv/cpu.lock
	$(PIP) --no-deps --no-build-isolation --editable .
else
	$(PIP) --require-hashes --requirement $(LOCK)
	$(PIP) --no-deps --no-build-isolation --editable .
endif
	touch $@

lock:
	uv pip compile pyproject.toml --extra dev --python-version 3.11 --universal --generate-hashes \
	    --no-annotate --custom-compile-command 'make lock' --default-index https://pypi.org/simple --quiet \
	    --output-file requirements.lock

clean:
	rm -rf demo smoke .snakemake
