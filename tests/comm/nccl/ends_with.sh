#!/usr/bin/env bash
# ends_with.sh CODE SECONDS TEXT COMMAND…: passes if COMMAND ends with exit code CODE within SECONDS and says TEXT.
set -euo pipefail
code=$1 seconds=$2 text=$3
shift 3
begin=$SECONDS
status=0
said=$("$@" 2>&1) || status=$?
took=$((SECONDS - begin))
printf '%s\n' "$said"
if [ "$status" != "$code" ]; then
  echo "exit code $status instead of $code" >&2
  exit 1
fi
if [ "$took" -gt "$seconds" ]; then
  echo "it took $took s, more than $seconds" >&2
  exit 1
fi
case $said in
  *"$text"*) ;;
  *)
    echo "it does not say: $text" >&2
    exit 1
    ;;
esac
