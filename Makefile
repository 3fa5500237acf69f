# make run      the product on built-in data, beside scikit-learn; ends in a page to open (a minute, once compiled)
# make test     what every change must pass: format, lint, types, imports, tests (a few minutes)
# make verify   the slow tests, the plain ones compiled, and those of the benchmarks (CI runs it after make test)
# make bench    speed: ours, a bare loop and the rivals in one run; writes docs/performance.md and docs/benchmarks.md
# make quality  loss without tuning on 108 tasks against every rival's settings, passes, trends; writes docs/no-tuning.md;
#               how close certificates come to the best loss; writes docs/certificates.md
# make quality-workers  what several workers cost in loss; writes docs/distributed.md
# make docs     the documentation as a site in out/site; a broken link or a missing docstring fails (a minute)
# make docs-serve  the same, shown while you write
# make lint     the first half of make test
# make unit     the second half of make test
# make bits     loops from object files against Numba in memory, every shipped one, bit for bit (a quarter of an hour)
# make wheel    a wheel for this platform with the usual loops compiled, in dist (some minutes)
# make release  sdist and wheels in dist, checked, each tried under Python 3.11 to 3.14 where there is one (extra: release)
# make clean    removes the environment and every cache
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: run test verify bits bench bench-test quality quality-workers lint unit docs docs-serve wheel release clean

run: $(STAMP)
	$(BIN)/giftrl demo --out out/run

test: lint unit

lint: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

unit: $(STAMP)
	$(BIN)/pytest -n auto --dist worksteal -m "not verify"

verify: bench-test $(VENV)/.docs $(VENV)/.verify
	$(BIN)/pytest -n auto --dist worksteal -m "verify or plain" --compiled --hypothesis-profile=verify

bits: $(STAMP)
	GIFTRL_BITS=every $(BIN)/pytest -n auto tests/test_bits.py

bench-test: $(VENV)/.bench
	$(BIN)/pytest -n auto benchmarks/tests

bench: bench-test
	$(BIN)/python -m benchmarks --out docs/performance.md --tables docs/benchmarks.md
	$(BIN)/python -m benchmarks.growth --out docs/benchmarks.md
	$(BIN)/python -m benchmarks.one_row --out docs/performance.md
	$(BIN)/python -m benchmarks.certificates --out docs/performance.md
	$(BIN)/python -m benchmarks.startup --out docs/performance.md
	$(BIN)/python -m benchmarks.workers --out docs/distributed.md
	$(BIN)/python -m benchmarks.serving --out docs/service.md

quality-workers: $(VENV)/.bench
	$(BIN)/python -m benchmarks.quality.workers --out docs/distributed.md

quality: $(VENV)/.bench
	$(BIN)/python -m benchmarks.quality --out docs/no-tuning.md --figure docs/figures/no-tuning.svg --json docs/quality/ours.json
	$(BIN)/python -m benchmarks.quality.passes --out docs/no-tuning.md
	$(BIN)/python -m benchmarks.quality.trends --out docs/no-tuning.md
	$(BIN)/python -m benchmarks.quality.certificates --out docs/certificates.md --json docs/quality/certificates.json

# Tutorials run when the site is built: with this environment's command, and the compiled loops of the tests.
MKDOCS := NO_MKDOCS_2_WARNING=1 PATH="$(CURDIR)/$(BIN):$$PATH" GIFTRL_CACHE_DIR="$(CURDIR)/.pytest_cache/loops" mkdocs

docs: $(VENV)/.docs
	$(MKDOCS) build --strict --quiet
	$(BIN)/python -m website.check out/site

docs-serve: $(VENV)/.docs
	$(MKDOCS) serve

$(VENV)/.docs: $(STAMP)
	$(BIN)/pip install --quiet --editable ".[docs]"
	touch $@

$(VENV)/.verify: $(STAMP)
	$(BIN)/pip install --quiet --editable ".[mlflow,onnx,ray,release,store-test]"
	touch $@

$(VENV)/.bench: $(STAMP)
	$(BIN)/pip install --quiet --editable ".[bench]"
	touch $@

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet --editable ".[experiments,test,lint]"
	touch $@

wheel: $(STAMP)
	GIFTRL_WHEEL_LOOPS=1 $(BIN)/pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .

release: $(VENV)/.release
	$(BIN)/python release.py

$(VENV)/.release: $(STAMP)
	$(BIN)/pip install --quiet --editable ".[release]"
	touch $@

clean:
	rm -rf $(VENV) .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache build dist
