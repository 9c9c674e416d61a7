#!/usr/bin/env bash
# on_gpu.sh OPS_TESTS [ARGUMENT…]: the cases of the operations on a GPU or its stand-in. What is of the CPU alone is
# left out: instruction sets, threads, sums in host memory, the reference itself.
set -euo pipefail
program=$1
shift
GPT_TEST_DEVICE=cuda exec "$program" --test-suite-exclude=cpu \
  '--source-file-exclude=*attention_words*,*host_sum*,*reference_test*' "$@"
