# Two jobs: `make up` runs the product, `make test` proves it. Both need only Python 3.11+ with venv, make and PyPI.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: env up test check lint types contracts tests lock

env: $(VENV)/.installed

$(VENV)/.installed: requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $@

up: env
	$(BIN)/vicinal up

test: env check

check: lint types contracts tests

lint:
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types:
	$(BIN)/mypy

contracts:
	$(BIN)/lint-imports

tests:
	$(BIN)/pytest -n 2

lock:
	uv pip compile --universal --generate-hashes --no-emit-index-url --no-annotate --extra dev --extra plots \
	  --python-version 3.11 --no-header --output-file requirements.lock pyproject.toml
