# make demo: the whole pipeline on the embedded digits, on the CPU
# make check: style, types and the quick tests, for every edit    make test: every check, from a clean clone too
# make pdf: all existing tables and figures in one document (SCALE=demo for the demo's)
# make report: one page with all results, for a browser
# make install: the tested versions, by their hashes (requirements.lock)
#   TORCH=cpu: without CUDA, 1.5 GB instead of 5.5, from PyTorch's own index
#   FAISS=gpu: the search of RS-IMLE on the GPU (faiss-gpu in place of faiss-cpu)
#   LOCK=: the newest versions that pyproject.toml allows
# make lock: write requirements.lock and requirements.gpu.lock again after a change of pyproject.toml
PYTHON ?= python3
TORCH ?= cuda
FAISS ?= cpu
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
	rtm report --pdf --scale $(SCALE)

report: $(BIN)/.installed
	rtm report --scale $(SCALE)

install: $(BIN)/.installed

UV := $(or $(shell command -v uv),$(BIN)/uv)
PIP = $(UV) pip install --quiet --python $(BIN)/python

# uv takes the place of pip: it is there, or .venv gets the version of the lock
$(BIN)/.installed: pyproject.toml $(LOCK)
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "RTM needs Python 3.11 or newer: make PYTHON=python3.12 demo")'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	test -x $(UV) || $(BIN)/python -m pip install --disable-pip-version-check --quiet $(shell sed -nE 's/^(uv==[^ ]+).*/\1/p' requirements.lock)
	@echo "Installing into .venv: several GB, a minute or more."
ifeq ($(LOCK),)
	$(PIP) --editable '.[dev]'
else ifeq ($(TORCH),cpu)
	$(PIP) --torch-backend cpu --no-verify-hashes --constraint $(LOCK) --editable '.[dev]'
else
	$(PIP) --require-hashes --requirement $(LOCK)
	$(PIP) --no-deps --no-build-isolation --editable .
endif
ifeq ($(FAISS),gpu)
	$(UV) pip uninstall --quiet --python $(BIN)/python faiss-cpu
	$(PIP) --require-hashes --requirement requirements.gpu.lock
endif
	touch $@

COMPILE = $(UV) pip compile --python-version 3.11 --generate-hashes --no-annotate --custom-compile-command 'make lock' \
    --default-index https://pypi.org/simple --quiet

lock:
	$(COMPILE) pyproject.toml --extra dev --universal --output-file requirements.lock
	sed -nE 's/^faiss-cpu(==[^ ]+).*/faiss-gpu\1/p' requirements.lock | $(COMPILE) - --constraint requirements.lock \
	    --python-platform linux --output-file requirements.gpu.lock

clean:
	rm -rf demo smoke .snakemake
