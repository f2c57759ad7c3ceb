# make demo   set up and tell the story         make test   set up and run the tests
# make lint   style and types               make test-slow   what takes minutes
# make bench   error, speed, memory, decoding   make web   build the pages' scripts anew
# make docs   what the documentation takes from the code
# make site   the documentation as a site: build/site/index.html   make clean
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
# also reaches the isolated environment in which pip builds the package
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt

.PHONY: demo test test-slow lint bench web docs site clean

demo: $(INSTALLED)
	$(BIN)/attnlab demo --overwrite

# one thread per process: two OpenMP threads lose to one when both cores are busy
test: $(INSTALLED)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 $(PYTEST)

test-slow: $(INSTALLED)
	OMP_NUM_THREADS=1 ATTNLAB_ALL_EXAMPLES=1 $(BIN)/python -m pytest -m slow $(PYTEST)
	OMP_NUM_THREADS=1 ATTNLAB_ALL_EXAMPLES=1 $(BIN)/python -m pytest -n 2 $$(grep -rl support.examples tests --include='test_*.py') $(PYTEST)

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(INSTALLED)
	$(BIN)/attnlab bench all --json bench.json --html bench.html --overwrite

# the built scripts are part of the package: users need no Node. First the TypeScript types of the studio's
# requests and responses and of reports, which Python declares
web: web/node_modules $(INSTALLED)
	cd web && npm run --silent types-from-python && npm run --silent build

# install, not ci: ci insists on builds for every other system, and a registry need not have them
web/node_modules: web/package.json web/package-lock.json
	cd web && npm install --silent --no-save --no-audit --no-fund
	touch $@

# the pictures too: make docs DOCS=--pictures
docs: $(INSTALLED)
	$(BIN)/python -m docs.scripts.make $(DOCS)

site: $(INSTALLED) build/claims.html
	$(BIN)/mkdocs build --strict

# the interactive page of all claims, which takes minutes: only after a change of the claims
build/claims.html: $(wildcard attnlab/claims/*.py) | $(INSTALLED)
	mkdir -p build
	$(BIN)/attnlab claims --html $@ --overwrite

# torch goes first and alone: pip then keeps the pinned build instead of choosing one for a package that wants "torch"
# --no-compile: Python compiles the modules that are used when they are first imported, a small part of all
$(INSTALLED): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --no-compile torch
	$(BIN)/python -m pip install --quiet --no-compile --editable ".[dev]"
	touch $@

clean:
	rm -rf $(VENV) web/node_modules build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find attnlab tests benchmarks examples -name __pycache__ -type d -exec rm -rf {} +
