#!/bin/bash
# Every C file is as clang-format 14 leaves it under .clang-format. usage: format.sh ROOT
set -euo pipefail
cd "$1"
if ! command -v clang-format >/dev/null; then
    echo "skip: clang-format is missing"
    exit 77
fi
if ! clang-format --version | grep -q 'version 14\.'; then
    echo "skip: $(clang-format --version): the tree is formatted by version 14"
    exit 77
fi
find . \( -path './build*' -o -name '.?*' \) -prune -o -name '*.[ch]' -print0 |
    xargs -0 --no-run-if-empty -n 50 clang-format --dry-run -Werror
