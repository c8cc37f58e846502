# make demo    set up .venv and run `ginnacer demo`
# make test    set up .venv with every optional backend and run all tests
# make fuzz    ten minutes of fuzzing of everything that reads files
# make check   ruff, ruff format and mypy
# make docs    build the site into site/, to be opened without a server
# make wheel   build the wheel and try it in an environment of its own, with nothing but the core dependencies
PYTHON ?= $(shell command -v python3.11 || command -v python3)
PIP = .venv/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
WORKERS ?= 2

.PHONY: demo fuzz test check docs wheel clean

demo: .venv/core.done
	.venv/bin/ginnacer demo

test: .venv/all.done
	.venv/bin/python -m pytest -n $(WORKERS) $(TESTS)

fuzz: .venv/all.done
	$(PIP) atheris
	.venv/bin/python benchmarks/fuzz.py --seconds 67

check: .venv/all.done
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy

docs: .venv/all.done
	NO_MKDOCS_2_WARNING=1 .venv/bin/python -m mkdocs build --strict --quiet
	@echo "open site/index.html"

wheel: .venv/all.done
	rm -rf dist .venv-wheel
	.venv/bin/python -m build --wheel --no-isolation --outdir dist .
	$(PYTHON) -m venv .venv-wheel
	.venv-wheel/bin/python -m pip install --quiet --disable-pip-version-check dist/*.whl
	cd dist && ../.venv-wheel/bin/ginnacer doctor --fast
	cd dist && ../.venv-wheel/bin/ginnacer demo
	cd dist && ../.venv-wheel/bin/ginnacer verify ../vnnlib/advisory/advisory_25x4.onnx ../vnnlib/advisory/prop_03.vnnlib --engine boxes
	cd dist && ../.venv-wheel/bin/ginnacer bench run ../vnnlib/pade/instances.csv -o pade --first 4
	cd dist && ../.venv-wheel/bin/ginnacer bench report pade -o pade.html
	@.venv-wheel/bin/python -c 'import importlib.util as u, sys; sys.exit(any(map(u.find_spec, ("torch", "maraboupy", "pytest"))))'

clean:
	rm -rf .venv .venv-wheel ginnacer-demo site build dist ginnacer_verify/native/*.so .mypy_cache .ruff_cache .pytest_cache .hypothesis

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed: make PYTHON=/path/to/python3.11"; exit 3; }
	$(PYTHON) -m venv .venv

.venv/core.done: .venv/bin/python pyproject.toml setup.py constraints.txt $(wildcard ginnacer_verify/native/*.[ch])
	@echo "Installing ginnacer-verify into .venv (about a minute) ..."
	$(PIP) --editable . --config-settings editable_mode=compat
	@touch $@

.venv/all.done: .venv/core.done
	@echo "Installing the optional backends and the test tools (a few minutes) ..."
	$(PIP) --editable '.[marabou,lirpa,torch,plots,dask,docs,dev]' --config-settings editable_mode=compat
	$(PIP) --no-deps auto_LiRPA==0.3
	@touch $@
