# make demo · make test · make check. Everything is installed into .venv, nothing elsewhere.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.PHONY: demo demo-terminal test check faults attacks bench bench-gateway bench-scrutiny bench-tables reference docs dist install dev clean

demo: $(VENV)/.installed  ## five embedded instances, end to end: no key, no registry, Docker optional
	$(BIN)/passone demo

demo-terminal: $(VENV)/.installed  ## five embedded terminal tasks, and both controls: no key, no registry, needs Docker
	$(BIN)/passone demo --terminal

test: $(VENV)/.dev  ## every test that can run here; a skip names its reason
	$(BIN)/pytest -n 4 --dist loadfile

check: $(VENV)/.dev  ## lint, format, types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

faults: $(VENV)/.dev  ## every fault brought about for real, against what is right: writes docs/faults.md
	$(BIN)/python -m tests.faults --write docs/faults.md

attacks: $(VENV)/.dev  ## patches that fix nothing and want to pass: writes docs/attacks.md
	$(BIN)/python -m tests.attacks --write docs/attacks.md

bench: bench-gateway bench-scrutiny bench-tables  ## every performance comparison: prints ratios, asserts none

bench-gateway: $(VENV)/.dev  ## what the gateway adds (PASSONE_BENCH_LITELLM=…: beside LiteLLM's proxy), and what it forgives
	$(BIN)/python -m tests.benchmarks.gateway_overhead
	$(BIN)/python -m tests.benchmarks.gateway_faults

bench-scrutiny: $(VENV)/.dev  ## what it costs to look at a pass (needs Docker)
	$(BIN)/python -m tests.benchmarks.scrutiny

bench-tables: $(VENV)/.dev  ## `passone table` over 500 x 10 and over a million attempts (3 GB of disk for a while)
	$(BIN)/python -m tests.benchmarks.tables

reference: $(VENV)/.dev  ## every command and option, from the program itself: writes docs/cli.md
	$(BIN)/python -m tests.reference --write docs/cli.md

docs: $(VENV)/.dev  ## the docs as a site, with the notebooks run on the demo: writes site/
	$(BIN)/passone demo --quiet
	$(BIN)/passone demo --size 10 --attempts 3 --quiet || [ $$? -eq 3 ]  # one instance never finishes
	PASSONE_EXECUTED=true NO_MKDOCS_2_WARNING=true $(BIN)/mkdocs build --strict --quiet

dist: $(VENV)/.dev  ## sdist and wheel, as an index would take them: writes dist/
	$(BIN)/python -m pip install --quiet --group dist
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/twine check --strict dist/*

install: $(VENV)/.installed
dev: $(VENV)/.dev

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "error: $$($(PYTHON) --version) is too old; name a Python of 3.11 or newer: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 2; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[mini]'
	@touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --editable '.[mini,docs]' --group dev
	@touch $@ $(VENV)/.installed

clean:
	rm -rf $(VENV) dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis
