#!/bin/bash
# A simulation with a broken rule must find that within a thousand seeds, and find the same again when it is told where.
# usage: found.sh PROGRAM
set -uo pipefail
first=$("$1" --seeds 1000 2>&1 >/dev/null)
case $first in
*VIOLATION*) ;;
*) echo "nothing found in 1000 seeds: ${first:-no word}"; exit 1 ;;
esac
echo "$first"
read -r -a again < <(sed -n 's/^again: [^ ]* \(.*\) --trace$/\1/p' <<<"$first")
second=$("$1" "${again[@]}" 2>&1 >/dev/null)
[ "$(sed -n 's/^VIOLATION//p' <<<"$first")" = "$(sed -n 's/^VIOLATION//p' <<<"$second")" ] || {
    echo "but not again with ${again[*]}: $second"
    exit 1
}
