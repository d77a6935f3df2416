# Each target sets up what it needs in .venv and is quick the second time.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: help demo test lint reproduce bench docs note clean
help:
	@echo "make demo    simulate a robot arm, compare the methods, draw a picture (build/demo.png)"
	@echo "make test    run the test suite"
	@echo "make reproduce  run the paper's experiments (STREAMGP_DATA names the folder of the data; ARGS=--quick, …)"
	@echo "make bench   run the peers beside streamgp (STREAMGP_DATA names the folder of the data; ARGS=…; installs PyTorch)"
	@echo "make docs    build the documentation (build/docs/index.html)"
	@echo "make note    print the technical note (build/note.pdf; needs Chromium)"
	@echo "make lint    style, types and the import contract"
	@echo "make clean   remove .venv and everything built"

$(BIN)/python:
	$(PYTHON) -m venv .venv

.venv/.run-ready: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e ".[plot]"
	@touch $@

.venv/.dev-ready: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e ".[dev]"
	@touch $@ .venv/.run-ready

demo: .venv/.run-ready
	$(BIN)/streamgp demo --output build/demo.png

# As many as the cores of the smallest machine.
WORKERS ?= 2
test: .venv/.dev-ready
	$(BIN)/python -m pytest -n $(WORKERS)

reproduce: .venv/.dev-ready
	$(BIN)/python -m experiments.paper --output build/reproduction $(ARGS)

.venv/.bench-ready: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	$(PIP) -e ".[bench]"
	@touch $@

bench: .venv/.bench-ready
	$(BIN)/python -m experiments.peers --output build/bench $(ARGS)

.venv/.docs-ready: .venv/.dev-ready
	$(PIP) -e ".[docs]"
	@touch $@

docs: .venv/.docs-ready
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs build/docs

CHROMIUM ?= $(shell command -v chromium || command -v chromium-browser || command -v google-chrome)

.PHONY: chromium
chromium:
	@test -n "$(CHROMIUM)" || { echo "Chromium prints the note and is not installed: apt install chromium (Debian, Ubuntu), or make note CHROMIUM=/path/to/chrome" >&2; exit 1; }

note: chromium docs
	"$(CHROMIUM)" --headless --no-sandbox --disable-gpu --no-first-run --user-data-dir=$(CURDIR)/build/chromium \
		--print-to-pdf=build/note.pdf --no-pdf-header-footer file://$(CURDIR)/build/docs/note.html
	@echo build/note.pdf

lint: .venv/.dev-ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

clean:
	rm -rf .venv build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
