#!/usr/bin/env bash
# signatures.sh SOURCE STANDIN_INCLUDE CXX NVCC CUDA_INCLUDE NCCL_INCLUDE: SOURCE compiles against the stand-in's
# headers and, by nvcc, against the real ones; and it names every function that the stand-in's headers declare.
# NVCC is empty where there is none: then only the first and the last are shown, and the test is skipped.
set -euo pipefail
SOURCE=$1 STANDIN=$2 CXX=$3 NVCC=$4 CUDA_INCLUDE=$5 NCCL_INCLUDE=$6

"$CXX" -std=c++20 -fsyntax-only -Wno-unknown-pragmas -I "$STANDIN" -x c++ "$SOURCE"

missing=0
while read -r name; do
  grep -qw -- "$name" "$SOURCE" || { echo "not used by $(basename "$SOURCE"): $name"; missing=1; }
done < <(grep -rhoE '\b(cuda|cublasLt|nccl|__)[A-Za-z0-9_]+\(' "$STANDIN" | tr -d '(' | sort -u |
  grep -vE '^__(attribute__|builtin|atomic|extension|align__|launch_bounds__)')
[ $missing = 0 ]

if [ -z "$NVCC" ]; then
  echo "skipped: no CUDA toolkit with NCCL to compare with"
  [ "${GPT_TEST_STRICT:-0}" = 0 ]
  exit 77
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$NVCC" -std=c++20 -arch=sm_80 -I "$NCCL_INCLUDE" -I "$CUDA_INCLUDE" -c -o "$scratch/signatures.o" "$SOURCE"
