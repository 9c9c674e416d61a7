#!/usr/bin/env bash
# Every C++ file is as clang-format would write it. Other versions break lines elsewhere: version 14 decides.
set -euo pipefail
VERSION=14
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

formatter=$(command -v "clang-format-$VERSION" clang-format | head -n 1)
if ! "${formatter:-false}" --version | grep -q "version $VERSION\."; then
  echo "skipped: clang-format $VERSION is not installed"
  [ "${GPT_TEST_STRICT:-0}" = 0 ]
  exit 77
fi
find lib app tests \( -name '*.[ch]pp' -o -name '*.cu' \) -print0 | xargs -0 "$formatter" --dry-run -Werror
