# shellcheck shell=bash
# step NAME COMMAND…: runs a long command quietly with a sign of life; when it fails, its output is shown.

show_life() {
  local name=$1 log=$2 started=$SECONDS shown=0
  while sleep 0.2 && kill -0 $$; do
    if [ -t 1 ]; then
      printf '\r\033[K%.*s' "$((${COLUMNS:-80} - 1))" "$name: $((SECONDS - started)) s  $(tail -n 1 "$log" | tr -d '\r')"
    elif [ $((SECONDS - started - shown)) -ge 30 ]; then
      shown=$((SECONDS - started))
      echo "$name: $shown s so far, $(tail -n 1 "$log" | tr -d '\r' | cut -c 1-60)"
    fi
  done
}

step() {
  local name=$1 log started=$SECONDS status=0
  shift
  log=$(mktemp)
  show_life "$name" "$log" &
  local life=$!
  "$@" >"$log" 2>&1 </dev/null || status=$?
  kill "$life"
  wait "$life" 2>/dev/null || true
  [ ! -t 1 ] || printf '\r\033[K'
  if [ "$status" = 0 ]; then
    echo "$name: done in $((SECONDS - started)) s"
  else
    cat "$log" >&2
    echo "$name: failed with exit code $status" >&2
  fi
  rm -f "$log"
  return "$status"
}
