#!/usr/bin/env bash
# Install ginnacer-verify 0.2.0 into ./venv beside this script. GINNACER_SOURCE is a checkout, a wheel or what pip takes.
set -eu
cd "$(dirname "$0")"
source=${GINNACER_SOURCE:-../../..}
python=${PYTHON:-python3}
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed" >&2; exit 3; }
"$python" -m venv venv
venv/bin/python -m pip install --quiet --disable-pip-version-check "$source"
venv/bin/ginnacer --version
