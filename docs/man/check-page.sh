#!/bin/bash
# A manual page renders without a warning. usage: check-page.sh PAGE
set -euo pipefail
said=$(LC_ALL=C.UTF-8 MANROFFSEQ='' MANWIDTH=80 man --warnings -E UTF-8 -l -Tutf8 -Z "$1" 2>&1 >/dev/null)
[ -z "$said" ] || {
    printf '%s\n' "$said"
    exit 1
}
