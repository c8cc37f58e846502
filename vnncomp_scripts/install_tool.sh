#!/usr/bin/env bash
# install_tool.sh v1: installs into .venv of this repository and compiles the engine. Needs Python 3.11 or newer, make and a C compiler.
set -eu
[ "$#" -eq 1 ] && [ "$1" = v1 ] || { echo "usage: install_tool.sh v1" >&2; exit 1; }
cd "$(dirname "$0")/.."
make .venv/core.done
