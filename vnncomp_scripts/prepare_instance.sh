#!/usr/bin/env bash
# prepare_instance.sh v1 CATEGORY ONNX VNNLIB: looks whether the files are there; does no analysis.
set -eu
[ "$#" -eq 4 ] && [ "$1" = v1 ] || { echo "usage: prepare_instance.sh v1 CATEGORY ONNX VNNLIB" >&2; exit 1; }
source "$(dirname "$0")/common.sh"
read_networks "$3"
property=$(found "$4")
for file in "${networks[@]#*=}" "$property"; do
    [ -r "$file" ] || { echo "$file cannot be read" >&2; exit 1; }
done
