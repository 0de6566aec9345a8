# Every target sets up .venv by itself; all it needs is Python 3.11 or newer with pip, and make.

PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)

VENV   := .venv
BIN    := $(VENV)/bin
LOCK   := requirements-dev.lock
LOCKED := $(VENV)/.locked
STAMP  := $(VENV)/.installed
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check

# pytest-timeout's limit for each test, in seconds. A test that needs more is marked `long`, and sets its
# own with @pytest.mark.timeout. `make test TIMEOUT_S=0` lifts it, for a debugger.
TIMEOUT_S ?= 60
# Worker processes; and what else pytest is told, e.g. ARGS='-k ladder tests/policy'.
WORKERS ?= 2
ARGS    ?=

PYTEST = $(BIN)/python -m pytest -n $(WORKERS) --timeout $(TIMEOUT_S)

# The tests start hundreds of processes: none of them should compile the package anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-long coverage lint format bench lock clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' Makefile | sed -E 's/:.*## /	/' | expand -t 14

setup: $(STAMP) ## install everything, pinned, into .venv

# A stamp is touched last, so an install that was cut short is done again, from nothing.
$(LOCKED): $(LOCK)
	@test -n "$(PYTHON)" || { echo "make: no Python 3.11 or newer found; name one with PYTHON=…" >&2; exit 1; }
	rm -rf $(VENV)
	$(PYTHON) -m venv $(VENV)
	$(PIP) --require-hashes -r $(LOCK)
	@touch $@

$(STAMP): $(LOCKED) pyproject.toml
	$(PIP) --no-deps --no-build-isolation -e .
	@touch $@

demo: $(STAMP) ## a dozen tickets, a vendor that misbehaves, at least seven kills and an audit
	$(BIN)/yaoki demo

test: $(STAMP) ## the whole suite, long tests in their short forms (under 3 minutes)
	$(PYTEST) $(ARGS)

test-long: TIMEOUT_S = 1800
test-long: $(STAMP) ## the whole suite at its full lengths
	YAOKI_LONG=1 $(PYTEST) $(ARGS)

coverage: $(STAMP) ## branch coverage of the suite, the commands' processes left out
	$(PYTEST) --cov --cov-report term $(ARGS)

lint: $(STAMP) ## ruff, mypy, pyright, import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports

format: $(STAMP) ## apply what ruff can fix and format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMP) ## steps per second beside their floors, as ratios
	$(BIN)/python bench/steps.py $(ARGS)

lock: ## pin again: the newest versions pyproject.toml allows
	rm -rf build/lock
	$(PYTHON) -m venv build/lock
	build/lock/bin/python -m pip install --quiet --disable-pip-version-check uv
	build/lock/bin/uv pip compile pyproject.toml --quiet --no-config --upgrade --extra dev --universal \
		--python-version 3.11 --generate-hashes --no-header --output-file $(LOCK)

clean: ## remove .venv, caches and builds
	rm -rf $(VENV) build dist htmlcov .coverage .coverage.* .hypothesis .import_linter_cache .mypy_cache \
		.pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
