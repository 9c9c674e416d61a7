#!/usr/bin/env bash
# needs_gpus.sh N COMMAND…: runs COMMAND where this host has N GPUs; else says so and is skipped (exit code 77).
set -euo pipefail
need=$1
shift
have=$( (nvidia-smi -L 2>/dev/null || true) | grep -c '^GPU' || true)
if [ "$have" -lt "$need" ]; then
  echo "skipped: $need GPUs are needed, this host has $have"
  [ "${GPT_TEST_STRICT:-0}" = 0 ]
  exit 77
fi
exec "$@"
