#!/bin/bash
# libxce shows what its headers declare, and nothing else. usage: check-exports.sh LIBRARY HEADER...
set -euo pipefail
library=$1
shift
declared=$(grep -ho 'XCE_API [^;(]*\bxce_[a-z_]*(' "$@" | grep -o 'xce_[a-z_]*($' | tr -d '(' | sort)
shown=$(nm -D --defined-only "$library" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort)
[ "$(wc -l <<<"$declared")" -gt 30 ] || { echo "declarations not found in: $*"; exit 1; }
diff <(echo "$declared") <(echo "$shown") || { echo "left: declared, right: exported"; exit 1; }
readelf -d "$library" | grep -q 'SONAME.*\[libxce.so.0\]' || { echo "soname is not libxce.so.0"; exit 1; }
