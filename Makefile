# Two commands need nothing but Python 3.11+, git and make: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The paper's data sets, where they lie beside the checkout.
ifneq ($(wildcard ../shared/data),)
export GPEXPERTS_DATA ?= $(abspath ../shared/data)
endif

# Bytecode is kept, also where the environment forbids it: tests start many processes.
unexport PYTHONDONTWRITEBYTECODE
# A worker runs whole modules, which share fixtures, and at the end some of the other's tests.
WORKERS := -n 2 --dist worksteal

.PHONY: demo docs test test-federated test-slow test-versions lint format clean

demo: $(VENV)/.ready
	$(BIN)/gpexperts demo

# The site, in build/docs. A warning is an error; the examples of the gallery run if they have changed.
docs: $(VENV)/.ready
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs build/docs
	@echo 'The site is in build/docs; open build/docs/index.html.'

test: lint
	$(BIN)/python -m pytest $(WORKERS) -m "not slow"
	$(MAKE) test-federated

# Federations on Flower, in an environment of their own: Flower needs older versions of typer, rich and packaging,
# at which the other tests would stop short of the newest ones.
FEDERATED := .venv-federated
test-federated: $(FEDERATED)/.ready
	$(FEDERATED)/bin/python -m pytest $(WORKERS) -m "not slow" tests/federated

$(FEDERATED)/.ready: pyproject.toml
	$(PYTHON) -m venv $(FEDERATED)
	$(FEDERATED)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[federated,cli,plot,paper]' \
		'pytest>=8' 'pytest-xdist>=3.5' 'pytest-timeout>=2.3' 'hypothesis>=6.100'
	touch $@

# The long part: fuzzers, thousands of fits, and then other versions.
test-slow: $(VENV)/.ready
	$(BIN)/python -m pytest -m slow
	$(MAKE) $(FEDERATED)/.ready
	$(FEDERATED)/bin/python -m pytest -m slow tests/federated
	$(MAKE) test-versions

# The lowest and the newest versions that pyproject.toml allows, and the wheel in an empty environment.
test-versions:
	PYTHON='$(PYTHON)' scripts/check_versions.sh

lint: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache
	$(BIN)/mypy

format: $(VENV)/.ready
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(VENV)/.ready: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "gpexperts needs Python 3.11 or newer: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,docs]'
	touch $@

clean:
	rm -rf $(VENV) $(FEDERATED) .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist out docs/gallery docs/generated
