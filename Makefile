PYTHON ?= python3
VENV ?= .venv
DEMO_VENV ?= .venv-demo
ARGS ?=
ROUNDS ?= 20
SEED ?= 1

BIN := $(VENV)/bin
PIP := -m pip --quiet --disable-pip-version-check --no-input
CODE := celery_replay django_app example_project benchmarks tests docs noxfile.py

.DEFAULT_GOAL := help
.PHONY: help venv test test-deep chaos test-versions fmt fmt-check lint types layers migrations check bench scale demo demo-web docs wheel clean

help:  ## Show the tasks
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

venv: $(VENV)/.stamp  ## Create the virtual environment

$(VENV)/.stamp: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(PIP) install --upgrade pip
	$(BIN)/python $(PIP) install --editable '.[dev]'
	@touch $@

PACKAGING := tests/packaging

# Hundreds of processes import the same code: without compiled files each would compile it again, for minutes in all.
test test-deep chaos: export PYTHONDONTWRITEBYTECODE =

# Tests with workers mostly wait: five processes keep two cores busy. The tests' conftest says what stays together.
# One that dies ends the run: the scheduler would wait for ever for what it was to do.
test: venv  ## Run the tests, of large tables a part; ARGS go to pytest, and then it is one process
	$(BIN)/python -m pytest $(if $(ARGS),$(ARGS),-q -n 5 --max-worker-restart 0 --durations 10 --ignore=$(PACKAGING))

test-deep: export REPLAY_TEST_DEEP = 1
test-deep: test  ## Run all tests, each table on every pool, database and role

CHAOS := tests/end_to_end/test_chaos.py tests/django_store/test_kills.py

chaos: venv  ## Beat workers, broker and store by chance: ROUNDS=20, from SEED=1 on; one that failed can be run again
	REPLAY_CHAOS_ROUNDS=$(ROUNDS) REPLAY_CHAOS_SEED=$(SEED) $(BIN)/python -m pytest -q $(CHAOS) $(ARGS)

test-versions: venv  ## Run the tests on every supported Celery and Django; ARGS="-k celery55" chooses
	$(BIN)/nox $(ARGS)

fmt: venv  ## Format the code and mend what can be mended
	$(BIN)/ruff check --quiet --fix-only $(wildcard $(CODE))
	$(BIN)/ruff format $(wildcard $(CODE))

fmt-check: venv  ## Check the format
	$(BIN)/ruff format --check $(wildcard $(CODE))

lint: venv  ## Look for faults in the code
	$(BIN)/ruff check $(wildcard $(CODE))

types: venv  ## Check the types
	$(BIN)/mypy

layers: venv  ## Check who may import whom
	$(BIN)/lint-imports

migrations: venv  ## Check that no migration is missing
	$(BIN)/python -m django makemigrations django_celery_replay --check --dry-run --settings tests.django_settings

check: fmt-check lint types layers migrations  ## Everything that is checked without running tests

$(VENV)/.bench: $(VENV)/.stamp
	$(BIN)/python $(PIP) install --editable '.[bench]'
	@touch $@

bench: $(VENV)/.bench  ## Measure against plain Celery; ARGS go to the benchmark
	$(BIN)/python -m benchmarks $(ARGS)

scale: venv  ## Measure among a million dead letters; ARGS="--letters 100000 --keep" and others go to it
	$(BIN)/python -m benchmarks.scale $(ARGS)

demo: $(DEMO_VENV)/.stamp  ## Run the demo project; ARGS go to it
	$(DEMO_VENV)/bin/python -m example_project.demo $(ARGS)

demo-web: $(DEMO_VENV)/.stamp  ## Serve the demo project's admin with data in it; ARGS go to it
	$(DEMO_VENV)/bin/python -m example_project.web $(ARGS)

$(DEMO_VENV)/.stamp: pyproject.toml
	$(PYTHON) -m venv $(DEMO_VENV)
	$(DEMO_VENV)/bin/python $(PIP) install --editable '.[demo]'
	@touch $@

docs: venv  ## Build the documentation, its reference from the code
	$(BIN)/python docs/generate.py
	$(BIN)/sphinx-build --quiet --fail-on-warning --nitpicky docs build/docs
	@echo "build/docs/index.html"

wheel: venv  ## Build the package and try it in empty environments
	$(BIN)/python -m pytest -q $(PACKAGING) $(ARGS)

clean:  ## Remove what the other tasks made
	rm -rf $(VENV) $(DEMO_VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find $(wildcard $(CODE)) -name __pycache__ -prune -exec rm -rf {} +
