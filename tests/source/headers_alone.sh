#!/usr/bin/env bash
# headers_alone.sh COMPILER ROOM-FLAGS BACKEND: compiles every header of lib/ by itself, with only what its room may
# see. ROOM-FLAGS has a line per room: its name, then its include and definition flags. BACKEND is GPT_CUDA_BACKEND:
# headers that include CUDA's or NCCL's are left out but with STANDIN, since this compiler does not know the real ones.
set -euo pipefail
export COMPILER=$1 ROOM_FLAGS=$2
BACKEND=$3
cd "$(dirname "${BASH_SOURCE[0]}")/../../lib"

check_header() {
  local header=$1 flags
  read -ra flags < <(sed -n "s,^${header%%/*} ,,p" "$ROOM_FLAGS")
  # Highway's per-target headers, for the targets that are used: never for the compiler's bare default.
  case $header in *-inl.hpp) flags+=(-march=native) ;; esac
  "$COMPILER" -std=c++20 -fsyntax-only -I. "${flags[@]}" -x c++ - <<<"#include \"$header\"" || {
    echo "lib/$header does not compile alone" >&2
    return 1
  }
}
export -f check_header

chosen=(-name '*.hpp')
[ "$BACKEND" = STANDIN ] || chosen+=(-not -path '*/cuda/*' -not -path '*/nccl/*')
# shellcheck disable=SC2016  # the inner shell expands its own argument
find . "${chosen[@]}" -printf '%P\0' | sort -z | xargs -0 -P "$(nproc)" -I{} bash -c 'check_header "$1"' _ {}
echo "$(find . "${chosen[@]}" | wc -l) headers compile alone"
