# Two jobs: `make up` runs the product, `make test` proves it. Both need only Python 3.11+ with venv, make and PyPI.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: env up test check lint types contracts tests test-engines results lock bench-peers

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
	$(BIN)/pytest -n 2 --ignore tests/real_engines
	$(BIN)/pytest tests/real_engines

# Two real vLLM engines on this machine's CPU. What they need is installed once, outside the checkout (4 GB).
test-engines: env
	PYTHON=$(PYTHON) sh tests/real_engines/install.sh
	$(BIN)/pytest tests/real_engines

# Routers that `vicinal bench gateway` stands beside, installed once, outside the checkout.
bench-peers:
	PYTHON=$(PYTHON) sh tests/bench/install_peers.sh

# Takes about an hour and a half of two cores and the public traces (VICINAL_TRACES). Claims that do not hold are results too.
results: env
	cp docs/results.head.md docs/results.md
	for name in mooncake_fig5 netkv stale_information knee prices every_policy isolation fairness starvation overload \
	  head_of_line early_rejection; do \
	  $(BIN)/vicinal scenario $$name --seeds 3 --plots docs/pictures --markdown >> docs/results.md || test $$? = 1 || exit 1; echo >> docs/results.md; done

lock:
	uv pip compile --universal --generate-hashes --no-emit-index-url --no-annotate --extra dev --extra plots \
	  --python-version 3.11 --no-header --output-file requirements.lock pyproject.toml
