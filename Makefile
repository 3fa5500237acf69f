# make run    makes the paper's figures on embedded data (or on GIFTRL_DATA) and ends in a page to open
# make bench  speed: ours, a bare loop and the rivals in one run; writes docs/performance.md
# make quality  loss without tuning on 96 tasks, against every rival's settings; writes docs/no-tuning.md
# make test   everything that must hold: format, lint, types, imports, tests
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: run test lint unit bench quality clean

run: $(STAMP)
	$(BIN)/giftrl reproduce --quick --out out/reproduction

test: lint unit

lint: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

unit: $(STAMP)
	$(BIN)/pytest -n auto

bench: $(VENV)/.bench
	$(BIN)/python -m benchmarks --out docs/performance.md
	$(BIN)/python -m benchmarks.growth --out docs/performance.md

quality: $(VENV)/.bench
	$(BIN)/python -m benchmarks.quality --out docs/no-tuning.md --figure docs/figures/no-tuning.svg --json docs/quality/ours.json

$(VENV)/.bench: $(STAMP)
	$(BIN)/pip install --quiet --editable ".[bench]"
	touch $@

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet --editable ".[experiments,test,lint]"
	touch $@

clean:
	rm -rf $(VENV) .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache build dist
