#!/usr/bin/env bash
# cudnn_attention.sh CXX WARNINGS CUDA CUDNN FRONTEND FOLDER: attention by cuDNN compiles, without a warning. CUDA, CUDNN
# and FRONTEND are the folders of cuda_runtime.h, cudnn.h and cudnn_frontend.h, or any other words. Without FRONTEND the
# headers may be in FOLDER from the last time; where nothing may be skipped they are brought there.
set -euo pipefail
CXX=$1 CUDA=$3 CUDNN=$4 FRONTEND=$5 FOLDER=$6
read -ra WARNINGS <<<"$2"
PACKAGE=${PACKAGE:-nvidia-cudnn-frontend==1.32.0}
cd "$(dirname "${BASH_SOURCE[0]}")/../../lib"

skip() {
  echo "skipped: $1"
  [ "${GPT_TEST_STRICT:-0}" = 0 ]
  exit 77
}

# Python may have pip as a module, or only as a program.
bring_headers() {
  local pip=(python3 -m pip)
  python3 -m pip --version >/dev/null 2>&1 || pip=(pip3)
  "${pip[@]}" download --quiet --no-deps --only-binary :all: --dest "$FOLDER" "$PACKAGE"
  python3 -m zipfile --extract "$FOLDER"/nvidia_cudnn_frontend-*.whl "$FOLDER"
}

if [ ! -e "$CUDA/cuda_runtime.h" ] || [ ! -e "$CUDNN/cudnn.h" ]; then skip "no CUDA toolkit with cuDNN 9"; fi
if [ ! -e "$FRONTEND/cudnn_frontend.h" ]; then
  FRONTEND=$FOLDER/include
  if [ ! -e "$FRONTEND/cudnn_frontend.h" ]; then
    [ "${GPT_TEST_STRICT:-0}" != 0 ] || skip "no cudnn_frontend.h: set GPT_CUDNN_FRONTEND, or GPT_TEST_STRICT=1 to download it"
    bring_headers
  fi
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$CXX" -std=c++20 "${WARNINGS[@]}" -Werror -DCUDNN_FRONTEND_SKIP_JSON_LIB -I . -isystem "$FRONTEND" -isystem "$CUDNN" \
  -isystem "$CUDA" -c -o "$scratch/cudnn_attention.o" device/cuda/cudnn_attention.cpp
echo "compiles with $(sed -n 's/^#define CUDNN_FRONTEND_[A-Z]*_VERSION //p' "$FRONTEND/cudnn_frontend_version.h" | paste -sd .) of the frontend"
