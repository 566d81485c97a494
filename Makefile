# Every target sets up .venv first; a second call finds it ready.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet --quiet

.PHONY: setup demo report test lint types imports unit bridges device bench picture clean

setup: $(READY)

# torch goes in first and by its pin, so that nothing else chooses its build.
$(READY): pyproject.toml studies/pyproject.toml constraints.txt
	@echo "Setting up .venv (torch is a large download the first time)"
	@$(PYTHON) -m venv .venv
	@$(PIP) install "$$(grep '^torch==' constraints.txt)"
	@$(PIP) install --constraint constraints.txt --editable '.[dev]' --editable ./studies
	@touch $@

demo: $(READY)
	@$(BIN)/python -m dubio_studies.demo --output demo.html

# Pages about all stored runs.
report: $(READY)
	@$(BIN)/dubio report

# Types are checked while tests run.
test: $(READY)
	$(MAKE) --jobs 2 lint types imports unit

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

imports: $(READY)
	$(BIN)/lint-imports

# A process for every core, each with one thread.
unit: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto

# Bridges to Lightning, Transformers, PEFT, BoTorch and Dask, which are large to install, and to
# torch.compile; and all examples.
bridges: $(READY)
	@$(PIP) install --constraint constraints.txt --editable '.[bridges]'
	OMP_NUM_THREADS=1 DUBIO_LONG_TESTS=1 $(BIN)/python -m pytest tests/bridges tests/docs tests/examples

# A device that is not the CPU, compiled for these tests: needs a C++ compiler.
device: $(READY)
	@$(PIP) install ninja
	PATH=$(CURDIR)/$(BIN):$$PATH DUBIO_DEVICE=$(CURDIR)/.venv/pretend OMP_NUM_THREADS=1 \
		$(BIN)/python -m pytest tests/device

bench: $(READY)
	$(BIN)/python benchmarks/predict.py

# The picture in the README.
picture: $(READY)
	@$(BIN)/python -m dubio_studies.demo --output demo.html --picture docs/images/regression.png

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis build dist demo.html report
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
