# make demo    set up .venv and verify a bundled property
# make test    set up .venv with every optional backend and run all tests
# make check   ruff, ruff format and mypy
# make wheel   build the wheel and try it in an environment of its own, with nothing but the core dependencies
PYTHON ?= $(shell command -v python3.11 || command -v python3)
PIP = .venv/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
WORKERS ?= 2

.PHONY: demo test check wheel clean

demo: .venv/core.done
	@mkdir -p demo
	@echo; echo "1. An intruder comes head-on: does the network ever choose to do nothing?"
	.venv/bin/ginnacer verify vnnlib/advisory/advisory_25x4.onnx vnnlib/advisory/prop_03.vnnlib
	@echo; echo "2. A property that fails, and its counterexample replayed on the original network"
	.venv/bin/ginnacer verify vnnlib/advisory/advisory_25x4.onnx vnnlib/advisory/prop_02.vnnlib --witness demo/counterexample.txt
	.venv/bin/ginnacer replay vnnlib/advisory/advisory_25x4.onnx vnnlib/advisory/prop_02.vnnlib demo/counterexample.txt
	@echo; echo "3. A digit that stays what it is, proved by abstraction and refinement with HiGHS"
	.venv/bin/ginnacer verify vnnlib/digits/digits_32x2.onnx vnnlib/digits/image_188_0.1.vnnlib --engine cegar --trace demo/trace.jsonl

test: .venv/all.done
	.venv/bin/python -m pytest -n $(WORKERS) $(TESTS)

check: .venv/all.done
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy

wheel: .venv/all.done
	rm -rf dist .venv-wheel
	.venv/bin/python -m build --wheel --no-isolation --outdir dist .
	$(PYTHON) -m venv .venv-wheel
	.venv-wheel/bin/python -m pip install --quiet --disable-pip-version-check dist/*.whl
	cd dist && ../.venv-wheel/bin/ginnacer doctor --fast
	cd dist && ../.venv-wheel/bin/ginnacer verify ../vnnlib/advisory/advisory_25x4.onnx ../vnnlib/advisory/prop_03.vnnlib --engine boxes
	cd dist && ../.venv-wheel/bin/ginnacer bench run ../vnnlib/pade/instances.csv -o pade --first 4
	cd dist && ../.venv-wheel/bin/ginnacer bench report pade -o pade.html
	@.venv-wheel/bin/python -c 'import importlib.util as u, sys; sys.exit(any(map(u.find_spec, ("torch", "maraboupy", "pytest"))))'

clean:
	rm -rf .venv .venv-wheel demo build dist ginnacer_verify/native/*.so .mypy_cache .ruff_cache .pytest_cache .hypothesis

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed: make PYTHON=/path/to/python3.11"; exit 3; }
	$(PYTHON) -m venv .venv

.venv/core.done: .venv/bin/python pyproject.toml setup.py constraints.txt $(wildcard ginnacer_verify/native/*.[ch])
	@echo "Installing ginnacer-verify into .venv (about a minute) ..."
	$(PIP) --editable .
	@touch $@

.venv/all.done: .venv/core.done
	@echo "Installing the optional backends and the test tools (a few minutes) ..."
	$(PIP) --editable '.[marabou,lirpa,plots,dask,dev]'
	$(PIP) --no-deps auto_LiRPA==0.3
	@touch $@
