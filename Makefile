# `make` lists the targets. Only python3 and make are needed: everything else is installed into .venv (the library, its
# tests and the demo), .venv-torch (PyTorch and HIPS autograd, to compare with; nothing else uses them), .venv-torch-2.15.0
# (another release of PyTorch, where TORCH says so) and .venv-ecosystem (packages that import torch, without PyTorch).

PYTHON ?= python3
PYTEST_ARGS ?=
# How many processes run the tests: a number, or auto for one more than there are cores, since some tests wait.
WORKERS ?= auto
DEMO_ARGS ?=
BENCH_ARGS ?=
MATRIX_ARGS ?=
MUTANTS_ARGS ?= --workers 2
# The release of PyTorch that conformance compares with: 2.13.0 has a small wheel, others have an environment each.
TORCH ?= 2.13.0

VENV := .venv
TORCH_VENV := .venv-torch$(if $(filter-out 2.13.0,$(TORCH)),-$(TORCH))
ECO_VENV := .venv-ecosystem
# Tests are handed out in the order of the files, so that what a file sets up is set up once or twice. The limit for one
# test is the last resort against one that hangs: every wait in the tests has an end of its own, much sooner.
IN_PARALLEL := -n $(WORKERS) --maxprocesses 16 --dist worksteal --timeout 600

# Packages are installed without compiling them, and compiled where they are first imported: each of the thousands of
# processes would compile them again where that could not be written.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# The targets share one checkout, and the benchmark wants the machine to itself: -j runs them one after another.
.NOTPARALLEL:
.PHONY: help demo test packaging debug generate check conformance ecosystem bench fuzz mutants matrix docs clean force

help: ## list the targets
	@echo "make TARGET, where TARGET is one of"
	@sed -n 's/^\([a-z]*\):[^#]*## \(.*\)/  \1\t\2/p' Makefile | expand -t 16
	@echo "PYTHON=... chooses the interpreter (3.11 or newer); PYTEST_ARGS, DEMO_ARGS, BENCH_ARGS, MATRIX_ARGS and MUTANTS_ARGS are passed on;"
	@echo "WORKERS=... is the number of processes that run the tests (cores and one); TORCH=2.15.0 compares with that PyTorch"

demo: generate ## train the digit classifier: accuracy, weights and a picture in demo-output/
	@$(VENV)/bin/python examples/train_digits.py --out demo-output $(DEMO_ARGS)

test: $(VENV)/installed ## run the tests that need no PyTorch, but for those of `make packaging`
	@echo "about 16,400 tests, which take sixteen minutes on two cores"
	@$(VENV)/bin/python -m pytest $(addprefix --ignore=tests/,conformance ecosystem packaging stubs docs) $(IN_PARALLEL) $(PYTEST_ARGS)

packaging: $(VENV)/installed ## test what users get: wheels, packages of operators, types, the examples of the pages
	@echo "about 400 tests, which take four minutes on two cores"
	@$(VENV)/bin/python -m pytest tests/packaging tests/stubs tests/docs $(IN_PARALLEL) $(PYTEST_ARGS)

generate: $(VENV)/installed ## write generated/ anew from the two YAML files
	@$(VENV)/bin/gradloom generate
	@$(VENV)/bin/python -m compileall -q generated

check: $(VENV)/installed ## check that generated/ is fresh, the code clean (ruff, mypy) and the layering kept
	@$(VENV)/bin/gradloom check
	@$(VENV)/bin/ruff format --quiet --check .
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/mypy
	@$(VENV)/bin/mypy --config-file= --strict tests/stubs/consumers
	@$(VENV)/bin/python -m pytest --quiet tests/test_layering.py

conformance: $(TORCH_VENV)/installed ## compare with PyTorch 2.13.0, or with the release TORCH
	@echo "about 13,200 tests, which take ten minutes on two cores"
	@$(TORCH_VENV)/bin/python -m pytest tests/conformance tests/semantics --library torch $(IN_PARALLEL) $(PYTEST_ARGS)

ecosystem: $(ECO_VENV)/installed ## run programs that use transformers, lightning, einops ... on gradloom (docs/ecosystem.md)
	@$(ECO_VENV)/bin/python -m pytest tests/ecosystem $(IN_PARALLEL) $(PYTEST_ARGS)

# The tests of the generator, of packages and of pages are left out: they look at generated/ as it is without the folder.
debug: $(VENV)/installed ## run the tests with operators that check what their kernels do (docs/debug.md)
	@$(VENV)/bin/gradloom generate --debug
	@echo "about 11,400 tests, which take fifteen minutes on two cores"
	@trap 'rm -rf generated/debug' EXIT; GRADLOOM_DEBUG=1 \
	    $(VENV)/bin/python -m pytest $(addprefix --ignore=tests/,conformance ecosystem codegen docs packaging stubs) $(IN_PARALLEL) \
	    $(PYTEST_ARGS)

bench: $(TORCH_VENV)/installed ## time gradloom, PyTorch and HIPS autograd side by side; a table, and bench.json
	@$(TORCH_VENV)/bin/python benchmarks/bench.py --json bench.json $(BENCH_ARGS)
	@$(TORCH_VENV)/bin/python benchmarks/cluster.py

matrix: $(VENV)/installed ## run the tests on the other versions of Python and NumPy that this machine has
	@$(VENV)/bin/python tests/packaging/matrix.py $(MATRIX_ARGS)

fuzz: $(VENV)/installed ## damage the YAML files in 10,000 ways: the generator must refuse each, or write sound code
	@GRADLOOM_FUZZ=10000 GRADLOOM_EDITS=5 \
	    $(VENV)/bin/python -m pytest tests/codegen/test_fuzz.py tests/codegen/test_incremental.py $(PYTEST_ARGS)

mutants: $(VENV)/installed ## change every formula of derivatives.yaml in all ways: gradloom verify must refuse 99% of them
	@$(VENV)/bin/python tests/ops/mutants.py $(MUTANTS_ARGS)

docs: $(VENV)/installed-docs ## build the documentation into build/site and test what it and README.md say
	@NO_MKDOCS_2_WARNING=1 $(VENV)/bin/python -m mkdocs build --quiet --strict
	@DOCS_BUILT=1 $(VENV)/bin/python -m pytest --quiet tests/docs $(IN_PARALLEL) $(PYTEST_ARGS)
	@echo "the documentation is in build/site: open build/site/index.html"

clean: ## remove the environments, build results, caches, demo-output/ and bench.json
	@rm -rf $(VENV) .venv-torch .venv-torch-* $(ECO_VENV) .venv-matrix build dist *.egg-info demo-output bench.json
	@rm -rf .pytest_cache .hypothesis .mypy_cache .ruff_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/installed: pyproject.toml setup.py
	@$(PYTHON) .ci/environment.py $(VENV) dev,demo $@

$(VENV)/installed-docs: $(VENV)/installed
	@$(PYTHON) .ci/environment.py $(VENV) docs $@ --into

$(TORCH_VENV)/installed: pyproject.toml setup.py
	@$(PYTHON) .ci/environment.py $(TORCH_VENV) comparison,bench $@ --torch $(TORCH)

$(ECO_VENV)/installed: pyproject.toml setup.py tests/ecosystem/requirements.txt
	@$(PYTHON) .ci/environment.py $(ECO_VENV) test $@ --with tests/ecosystem/requirements.txt

# The stamp names the checkout: an environment that came along in a copied folder would run the code of the original.
ifneq ($(shell cat $(VENV)/installed 2>/dev/null),$(CURDIR))
$(VENV)/installed: force
endif
ifneq ($(shell cat $(TORCH_VENV)/installed 2>/dev/null),$(CURDIR))
$(TORCH_VENV)/installed: force
endif
ifneq ($(shell cat $(ECO_VENV)/installed 2>/dev/null),$(CURDIR))
$(ECO_VENV)/installed: force
endif
