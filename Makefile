# make demo    set up .venv and verify a bundled property
# make test    set up .venv with every optional backend and run all tests
# make check   ruff, ruff format and mypy
PYTHON ?= $(shell command -v python3.11 || command -v python3)
PIP = .venv/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
WORKERS ?= 2

.PHONY: demo test check clean

demo: .venv/core.done
	@mkdir -p demo
	@echo; echo "1. An intruder comes head-on: does the network ever choose to do nothing?"
	.venv/bin/ginnacer verify vnnlib/advisory/advisory_25x4.onnx vnnlib/advisory/prop_03.vnnlib
	@echo; echo "2. A property that fails, and its counterexample replayed on the original network"
	.venv/bin/ginnacer verify vnnlib/advisory/advisory_25x4.onnx vnnlib/advisory/prop_02.vnnlib --witness demo/counterexample.txt
	.venv/bin/ginnacer replay vnnlib/advisory/advisory_25x4.onnx vnnlib/advisory/prop_02.vnnlib demo/counterexample.txt
	@echo; echo "3. A digit that stays what it is, proved by abstraction and refinement with HiGHS"
	.venv/bin/ginnacer verify vnnlib/digits/digits_32x2.onnx vnnlib/digits/image_188_0.1.vnnlib --trace demo/trace.jsonl

test: .venv/all.done
	.venv/bin/python -m pytest -n $(WORKERS) $(TESTS)

check: .venv/all.done
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy

clean:
	rm -rf .venv demo build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed: make PYTHON=/path/to/python3.11"; exit 3; }
	$(PYTHON) -m venv .venv

.venv/core.done: .venv/bin/python pyproject.toml constraints.txt
	@echo "Installing ginnacer-verify into .venv (about a minute) ..."
	$(PIP) --editable .
	@echo "Compiling the native engine (once, about half a minute) ..."
	@.venv/bin/python -m ginnacer_verify.engine.warm
	@touch $@

.venv/all.done: .venv/core.done
	@echo "Installing the optional backends and the test tools (a few minutes) ..."
	$(PIP) --editable '.[marabou,lirpa,plots,dask,dev]'
	$(PIP) --no-deps auto_LiRPA==0.3
	@touch $@
