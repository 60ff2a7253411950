# `make` lists the targets. Only python3 and make are needed: everything else is installed into .venv (the library, its
# tests and the demo) and .venv-torch (PyTorch and HIPS autograd, to compare with; nothing else uses them).

PYTHON ?= python3
PYTEST_ARGS ?=
DEMO_ARGS ?=
BENCH_ARGS ?=
MATRIX_ARGS ?=

VENV := .venv
TORCH_VENV := .venv-torch
PIP_INSTALL := -m pip install -qq --disable-pip-version-check --editable

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# The targets share one checkout, and the benchmark wants the machine to itself: -j runs them one after another.
.NOTPARALLEL:
.PHONY: help demo test generate check conformance bench fuzz matrix docs clean force

help: ## list the targets
	@echo "make TARGET, where TARGET is one of"
	@sed -n 's/^\([a-z]*\):[^#]*## \(.*\)/  \1\t\2/p' Makefile | expand -t 16
	@echo "PYTHON=... chooses the interpreter (3.11 or newer); PYTEST_ARGS, DEMO_ARGS, BENCH_ARGS and MATRIX_ARGS are passed on"

demo: generate ## train the digit classifier: accuracy, weights and a picture in demo-output/
	@$(VENV)/bin/python examples/train_digits.py --out demo-output $(DEMO_ARGS)

test: $(VENV)/installed ## run the tests that need no PyTorch
	@$(VENV)/bin/python -m pytest --ignore=tests/conformance $(PYTEST_ARGS)

generate: $(VENV)/installed ## write generated/ anew from the two YAML files
	@$(VENV)/bin/gradloom generate
	@$(VENV)/bin/python -m compileall -q generated

check: $(VENV)/installed ## is generated/ fresh, the code clean (ruff, mypy) and the layering kept?
	@$(VENV)/bin/gradloom check
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/mypy
	@$(VENV)/bin/mypy --config-file= --strict tests/stubs/consumers
	@$(VENV)/bin/python -m pytest --quiet tests/test_layering.py

conformance: $(TORCH_VENV)/installed ## compare with PyTorch 2.13
	@$(TORCH_VENV)/bin/python -m pytest tests/conformance tests/semantics $(PYTEST_ARGS)

bench: $(TORCH_VENV)/installed ## time gradloom, PyTorch and HIPS autograd side by side; a table, and bench.json
	@$(TORCH_VENV)/bin/python benchmarks/bench.py --json bench.json $(BENCH_ARGS)

matrix: $(VENV)/installed ## run the tests on the other versions of Python and NumPy that this machine has
	@$(VENV)/bin/python tests/packaging/matrix.py $(MATRIX_ARGS)

fuzz: $(VENV)/installed ## damage the YAML files in 10,000 ways: the generator must refuse each, or write sound code
	@GRADLOOM_FUZZ=10000 $(VENV)/bin/python -m pytest tests/codegen/test_fuzz.py $(PYTEST_ARGS)

docs: $(VENV)/installed-docs ## build the documentation into build/site and test what it and README.md say
	@NO_MKDOCS_2_WARNING=1 $(VENV)/bin/python -m mkdocs build --quiet --strict
	@DOCS_BUILT=1 $(VENV)/bin/python -m pytest --quiet tests/docs $(PYTEST_ARGS)
	@echo "the documentation is in build/site: open build/site/index.html"

clean: ## remove the environments, build results, caches, demo-output/ and bench.json
	@rm -rf $(VENV) $(TORCH_VENV) .venv-matrix build dist *.egg-info demo-output bench.json
	@rm -rf .pytest_cache .hypothesis .mypy_cache .ruff_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/installed: pyproject.toml setup.py
	$(call environment,$(VENV),dev$(comma)demo)

$(VENV)/installed-docs: $(VENV)/installed
	@echo "installing gradloom[docs] into $(VENV)/"
	@$(VENV)/bin/python $(PIP_INSTALL) '.[docs]'
	@touch $@

$(TORCH_VENV)/installed: pyproject.toml setup.py
	$(call environment,$(TORCH_VENV),conformance$(comma)bench)

# The stamp names the checkout: an environment that came along in a copied folder would run the code of the original.
ifneq ($(shell cat $(VENV)/installed 2>/dev/null),$(CURDIR))
$(VENV)/installed: force
endif
ifneq ($(shell cat $(TORCH_VENV)/installed 2>/dev/null),$(CURDIR))
$(TORCH_VENV)/installed: force
endif

comma := ,

define environment
	@echo "installing gradloom[$(2)] into $(1)/"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and \
		"gradloom needs Python 3.11 or newer and $(PYTHON) is " + sys.version.split()[0] + "; try: make PYTHON=python3.12")'
	@$(PYTHON) -m venv --clear $(1)
	@$(1)/bin/python $(PIP_INSTALL) '.[$(2)]'
	@echo "$(CURDIR)" > $@
endef
