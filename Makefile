# `make demo`, `make test` and `make test-all` do all the set-up they need on a fresh machine.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test test-all coverage bench docs docs-full clean

demo: $(VENV)/.installed
	PYTHONDONTWRITEBYTECODE= $(BIN)/mlsim run scenarios/quickstart.yaml

test: $(VENV)/.installed-dev
	sh tools/install-otf2-tools
	sh tools/install-openmpi
	sh tools/install-slurm
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -n auto --dist worksteal -m "not slow"

# The rest: tests of more than a second of CPU time each, such as oracles at length, faults of real runs, whole logs.
test-all: test
	$(BIN)/pytest -n auto --dist worksteal -m slow
	$(BIN)/python -m mlsim._jit check

# Which lines the tests execute: a table, and pages in build/coverage. Of some tests: make coverage TESTS=tests/cli
TESTS ?=
coverage: $(VENV)/.installed-dev
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -q -n auto --dist worksteal $(TESTS)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage html --quiet --directory build/coverage
	$(BIN)/coverage report

# The site, into build/site: warnings are errors.
docs: $(VENV)/.installed-dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

# Every block of the site that this machine can run, the costly ones as well: for the night.
docs-full: docs
	MLSIM_DOCS_FULL=1 $(BIN)/pytest -n 0 -q tests/test_docs.py

bench: $(VENV)/.installed-dev
	$(BIN)/python tools/bench/startup.py --apart
	$(BIN)/python tools/bench/against_release.py
	$(BIN)/python tools/bench/run_many.py
	$(BIN)/python tools/bench/read_swf.py
	$(BIN)/python tools/bench/passes.py
	$(BIN)/python tools/bench/replay.py
	$(BIN)/python tools/bench/growth.py
	$(BIN)/python tools/bench/peers.py
	$(BIN)/python tools/bench/wide.py --room pool
	$(BIN)/python tools/bench/loops.py
	$(BIN)/python tools/bench/calibrating.py
	$(BIN)/python tools/bench/first_calls.py
	$(BIN)/python tools/bench/otf2_writer.py
	$(BIN)/python tools/bench/mpi_overhead.py

clean:
	rm -rf $(VENV) build *.egg-info

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "mlsim needs Python 3.11 or later; try make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)

# The byte code of packages is written by the first run, of what it imports: pip would write that of all.
$(VENV)/.installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt --editable '.[jit,otf2]'
	$(BIN)/python -m compileall -q mlsim
	touch $@

$(VENV)/.installed-dev: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	$(BIN)/python -m compileall -q mlsim
	touch $@ $(VENV)/.installed
