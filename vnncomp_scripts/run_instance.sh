#!/usr/bin/env bash
# run_instance.sh v1 CATEGORY ONNX VNNLIB RESULTS_FILE TIMEOUT
# The first line of RESULTS_FILE is sat, unsat, unknown, timeout or error; a counterexample follows `sat`. TIMEOUT
# counts from the start of this script. Whatever happens, there is a result and the exit code is 0.
since=${EPOCHREALTIME:-$(date +%s.%N)}
[ "$#" -eq 6 ] && [ "$1" = v1 ] || { echo "usage: run_instance.sh v1 CATEGORY ONNX VNNLIB RESULTS TIMEOUT" >&2; exit 1; }
source "$(dirname "$0")/common.sh"
results=$5 timeout=$6
draft="$results.part"
trap 'rm -f "$draft"' EXIT

read_networks "$3"
property=$(found "$4")
if [[ $3 == \[* ]]; then
    words=("$property")
    for network in "${networks[@]}"; do words+=(--network "$network"); done
else
    words=("${networks[0]}" "$property")
fi
# What is left at the end is for writing the result: a second, or a tenth of a short time.
limit=$(awk -v t="$timeout" 'BEGIN { print t - (t < 10 ? t / 10 : 1) }')
timeout --signal=KILL "$timeout" \
    "$python" -P -m ginnacer_verify verify "${words[@]}" --timeout "$limit" --since "$since" --quiet > "$draft"
code=$?

case $code in
    0 | 1) verdict=$(head -n 1 "$draft") ;;
    2) verdict=unknown ;; # a network or a property that we cannot read; the reason is on stderr
    124 | 137) verdict=timeout ;;
    *) verdict=error ;;
esac
case $verdict in
    sat) ;; # the draft is the result
    unsat | unknown | timeout | error) echo "$verdict" > "$draft" ;;
    *) echo error > "$draft" ;;
esac
mv "$draft" "$results"
exit 0
