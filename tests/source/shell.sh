#!/usr/bin/env bash
# Every shell script passes shellcheck.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

if ! command -v shellcheck >/dev/null; then
  echo "skipped: shellcheck is not installed"
  [ "${GPT_TEST_STRICT:-0}" = 0 ]
  exit 77
fi
{
  printf '%s\0' run .ci/run
  find . \( -name '.?*' -o -name 'build*' -o -path ./datasets -o -path ./runs \) -prune -o -name '*.sh' -print0
} | xargs -0 shellcheck --external-sources
