# Every target does its own set-up: Python 3.11 or newer, pip and make are all it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

DOCS := $(VENV)/.documents

# Many processes import the same, which is compiled once.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo docs look paper_scale test test-thorough lint types tests tests-thorough format mutants bench
.PHONY: release-check clean

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python tests/environment.py -e '.[dev]'
	touch $@

demo: $(STAMP)
	$(BIN)/scalewise report --data digits --activation tanh --depth 16 --width 128 --image 8,8,1 --out report
	$(BIN)/scalewise train --data digits:3,8 --train 8 --test 8 --width 64 --widths 32 --ensemble 1000 --out training

# Hours; killed, the same again goes on. What it leaves as paper_scale/*.json belongs into docs/paper_scale.
paper_scale: $(STAMP)
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m scalewise.experiments --scale paper \
		--store paper_runs --out paper_scale

$(DOCS): $(STAMP)
	$(BIN)/python tests/environment.py -e '.[docs]'
	touch $@

# The site, in site/index.html: a broken link, a page that nothing leads to, a public name without its words, code that
# raises or a number that is not what it should be ends it with an error. What was executed is not executed again.
# GALLERY=small make docs runs the experiments of the gallery at their smallest size.
docs: $(DOCS)
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m sphinx --fail-on-warning --keep-going docs site

# Every page in a headless browser, at three widths; chromium must be on the PATH.
look: docs
	$(BIN)/python docs/look.py site

# Types take one core, and have it while the tests begin.
test: $(STAMP)
	$(MAKE) -j 2 lint types tests

# With every repetition on more activations, widths and shapes (tests/daily.py).
test-thorough: $(STAMP)
	$(MAKE) -j 2 lint types tests-thorough

lint: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(STAMP)
	$(BIN)/basedpyright

tests: $(STAMP)
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal -m 'not thorough'

tests-thorough: $(STAMP)
	CHECK_CALLS=test OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(STAMP)
	$(BIN)/python benchmarks/peers_environment.py
	$(BIN)/python benchmarks/core_environment.py
	$(BIN)/python benchmarks/run.py

# Wheel and sdist, built and used from empty folders with each extra; downloads some gigabytes. docs/development.md
release-check:
	$(PYTHON) tests/release_check.py

# Most of an hour; killed, the same again goes on. A few at random: .venv/bin/python tests/mutants.py --sample 10
mutants: $(STAMP)
	$(BIN)/python tests/mutants.py

clean:
	rm -rf $(VENV) report training experiments paper_scale site docs/reference docs/drawn docs/gallery docs/_gallery docs/notebooks docs/sg_* \
		.jupyter_cache jupyter_execute
