#!/usr/bin/env bash
# check.sh [--stand-in]: all that only a GPU can show, as one table: the tests on it, compute-sanitizer on a sample, a
# training step of gpt2 against what the GPU can do, the readings in log.jsonl. docs/gpus.md explains the rows.
# --stand-in: a dry run of this script itself, without a GPU: samples of the tests and a tiny model.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

BUILD=${BUILD:-}                     # a build with tests and GPT_CUDA=ON (--stand-in: STANDIN); empty: it is made
LOGS=${LOGS:-build-gpu-check}        # what each check said
JOBS=${JOBS:-$(nproc)}               # compile jobs
PYTHON=${PYTHON:-python3}
PRESET=${PRESET:-gpt2}               # of the step that is measured, as are the next four
BATCH=${BATCH:-32}
CONTEXT=${CONTEXT:-1024}
VOCABULARY=${VOCABULARY:-50257}
STEPS=${STEPS:-10}
ROUNDS=${ROUNDS:-3}
TARGET_MFU=${TARGET_MFU:-50}         # percent, on an H100 or H200; elsewhere MFU is told and not judged
SANITIZED=${SANITIZED:-*norm*,*embed*}  # cases of the operations that compute-sanitizer looks at
LIMIT=${LIMIT:-600}                  # seconds for all checks; building is not counted

ROWS=()
FAILURES=0
BEGUN=$SECONDS

# row WHAT FIGURE TARGET VERDICT
row() {
  ROWS+=("$1|$2|$3|$4")
  [ "$4" != failed ] || FAILURES=$((FAILURES + 1))
}

# figure LOG: what a test program counted; of several ranks each count once.
figure() {
  sed -nE 's/^\[doctest\] (test cases|assertions): *([0-9]+).*/\2 \1/p; s/^Ran ([0-9]+) tests?.*/\1 tests/p
    s/^OK \((.*)\)/\1/p' "$1" | awk '!seen[$0]++' | paste -sd ';' | sed 's/;/, /g'
}

# limited COMMAND…: for as long as the check that it is part of may take.
limited() { timeout --kill-after=10 "$limit" "$@"; }

# check WHAT SECONDS COMMAND…: a row about how the command ended. Exit code 77 means skipped.
check() {
  local what=$1 limit=$2 status=0 started=$SECONDS verdict=passed counted
  shift 2
  local log="$LOGS/${what//[^a-z0-9]/-}.log" left=$((LIMIT - SECONDS + BEGUN))
  if [ "$left" -lt "$limit" ]; then limit=$left; fi
  if [ "$limit" -lt 5 ]; then
    row "$what" "no time left of $LIMIT s" "" failed
    return 1
  fi
  echo "$what …"
  "$@" >"$log" 2>&1 </dev/null || status=$?
  case $status in
    0) ;;
    77) verdict=skipped ;;
    *)
      verdict=failed
      if [ "$status" = 124 ]; then echo "it was ended after $limit s" >>"$log"; fi
      echo "$what: exit code $status, whole output in $log" >&2
      tail -n 25 "$log" >&2
      ;;
  esac
  counted=$(figure "$log")
  row "$what" "${counted:+$counted, }$((SECONDS - started)) s" "" "$verdict"
  [ "$verdict" = passed ]
}

# rows_of ARGUMENT…: the rows that rows.py makes of a file of figures.
rows_of() {
  local what figure target verdict
  while IFS='|' read -r what figure target verdict; do
    row "$what" "$figure" "$target" "$verdict"
  done < <("$PYTHON" -B tests/gpu/rows.py "$@" || echo "figures of $1|rows.py failed||failed")
}

test_training() {
  limited env GPT_CUDA_BACKEND="$BACKEND" GPT_MPI="$BUILD/app/gpt_mpi" GPT_DATA="$BUILD/app/gpt_data" \
    GPT_SAMPLE="$BUILD/app/gpt_sample" GPT_BENCH="$BUILD/app/gpt_bench" GPT_FAKE_NVML="$FAKE_NVML" OMP_NUM_THREADS=1 \
    "$PYTHON" -B tests/system/test_cuda.py "${TRAINING_TESTS[@]}"
}

# sanitize TOOL COMMAND…
sanitize() {
  local tool=$1
  shift
  # API errors are not reported: some cases ask for more memory than there is.
  limited compute-sanitizer --tool "$tool" --error-exitcode 9 --report-api-errors no "$@"
}

check_sanitized() {
  if ! command -v compute-sanitizer >/dev/null; then
    row "compute-sanitizer" "not installed" "" skipped
    return
  fi
  local tool
  for tool in memcheck racecheck synccheck; do
    check "compute-sanitizer $tool" 100 sanitize "$tool" tests/ops/on_gpu.sh "$BUILD/tests/ops/ops_tests" \
      "--test-case=$SANITIZED" || true
  done
}

measure_step() {
  limited "$BUILD/app/gpt_bench" step --device cuda --preset "$PRESET" --micro-batch "$BATCH" --context "$CONTEXT" \
    --vocab "$VOCABULARY" --precision bf16 --steps "$STEPS" --rounds "$ROUNDS" --python none --json "$LOGS/step.json"
}

# A short training, for what log.jsonl says of the GPU.
train() {
  rm -rf "$LOGS/data" "$LOGS/run"
  limited "$BUILD/app/gpt_data" synth --out "$LOGS/data" --tokens "$TRAIN_TOKENS" --shards 4 --seed 1 || return
  limited "$BUILD/app/gpt_mpi" --device cuda --data "$LOGS/data" --out "$LOGS/run" --precision bf16 --global-batch 4 \
    --steps "$TRAIN_STEPS" --log-every 2 --eval-every 0 --save-every 0 --sample-tokens 0 "${TRAIN_MODEL[@]}"
}

prepare_standin() {
  BACKEND=STANDIN
  export GPT_CUDA_STANDIN_DEVICES=2 GPT_CUDA_STANDIN_NAME="NVIDIA H100 80GB HBM3"
  GPUS=1 OPS=("--test-case=*classifier*") CUDA_TESTS=("--test-case=*event*,*spans*")
  TRAINING_TESTS=(OnGpus.test_memory_is_saved_by_computing_again)
  PRESET=char-cpu BATCH=1 CONTEXT=8 VOCABULARY=64 STEPS=1 ROUNDS=1 TARGET_MFU=0
  TRAIN_TOKENS=20000 TRAIN_STEPS=8 TRAIN_MODEL=(--layers 1 --heads 2 --width 32 --context 16)
  FAKE_NVML="$BUILD/tests/support/fake_nvml"
  export LD_LIBRARY_PATH="$FAKE_NVML${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
}

prepare_gpu() {
  BACKEND=ON
  OPS=() CUDA_TESTS=() TRAINING_TESTS=(OnGpus)
  TRAIN_TOKENS=2000000 TRAIN_STEPS=100 TRAIN_MODEL=(--preset gpt2 --context 256)
  FAKE_NVML="$BUILD/tests/support/fake_nvml"
  GPUS=$( (nvidia-smi -L 2>/dev/null || true) | grep -c '^GPU' || true)
  if [ "$GPUS" = 0 ]; then
    echo "check.sh: no GPU is to be seen here: nvidia-smi -L lists none. Without one: tests/gpu/check.sh --stand-in" >&2
    exit 14
  fi
}

# build PRESET
build() {
  cmake --preset "$1" || return
  cmake --build --preset "$1" --parallel "$JOBS"
}

print_table() {
  local what figure target verdict
  {
    echo "what|figure|target|"
    printf '%s\n' "${ROWS[@]}"
  } | while IFS='|' read -r what figure target verdict; do
    printf '%-34s  %-44s  %-18s  %s\n' "$what" "$figure" "$target" "$verdict"
  done
}

STANDIN=no
case ${1:-} in
  "") ;;
  --stand-in) STANDIN=yes ;;
  *)
    echo "usage: tests/gpu/check.sh [--stand-in]   settings: BUILD=FOLDER, LOGS=FOLDER, and others at its top" >&2
    exit 2
    ;;
esac
mkdir -p "$LOGS"
LOGS=$(cd "$LOGS" && pwd)
if [ -z "$BUILD" ]; then
  preset=gpu
  [ "$STANDIN" = no ] || preset=standin
  BUILD=build-$preset
  LIMIT=7200 check "build" 7200 build "$preset" || exit 1
fi
BEGUN=$SECONDS
BUILD=$(cd "$BUILD" && pwd)
if [ "$STANDIN" = yes ]; then prepare_standin; else prepare_gpu; fi

check "operator cases" 150 limited tests/ops/on_gpu.sh "$BUILD/tests/ops/ops_tests" "${OPS[@]}" || true
check "queues, events, memory" 60 limited "$BUILD/tests/cuda/cuda_tests" "${CUDA_TESTS[@]}" || true
for ((n = 1; n <= GPUS && n <= 8; n *= 2)); do
  check "collectives, $n of the GPUs" 60 limited tests/support/mpirun.sh "$n" "$BUILD/tests/comm/nccl/nccl_tests" ||
    true
done
check "training" 150 test_training || true
if [ "$STANDIN" = no ]; then check_sanitized; else row "compute-sanitizer" "a dry run" "" skipped; fi
if check "a step by operation" 120 measure_step; then
  sed -n '/^where the time goes/,$p' "$LOGS/a-step-by-operation.log"
  rows_of step "$LOGS/step.json" "$TARGET_MFU"
fi
if check "a short training" 100 train; then rows_of log "$LOGS/run/log.jsonl"; fi

echo
print_table
echo "$FAILURES failed; $((SECONDS - BEGUN)) s; whole outputs in $LOGS"
[ "$GPUS" -gt 1 ] || [ "$STANDIN" = yes ] || echo "One GPU says nothing about NCCL between GPUs."
[ "$FAILURES" = 0 ]
