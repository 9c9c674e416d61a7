#!/usr/bin/env bash
# sweep.sh RATE… [-- SBATCH-OPTION…]: trains once for each learning rate, as a job array of slurm/train_4x8.sh, waits
# for the runs and prints a table of their losses.
# sweep.sh --table FOLDER: that table alone, as it is now.
#   RUN=/shared/runs/rates ARGS='--preset mini --steps 2000' slurm/sweep.sh 3e-4 1e-3 3e-3 1e-2 -- --nodes=1
# Settings are those of train_4x8.sh; RUN is the folder of the sweep [runs/sweep beside slurm/].
set -euo pipefail
TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=slurm/lib/sweep.sh
. "$TOP/slurm/lib/sweep.sh"
# shellcheck source=slurm/lib/log.sh
. "$TOP/slurm/lib/log.sh"

usage() {
  echo "usage: slurm/sweep.sh RATE... [-- SBATCH-OPTION...] | slurm/sweep.sh --table FOLDER" >&2
  exit 2
}

# table FOLDER: runs by learning rate; the loss is that of the last step, or of the last validation.
table() {
  local folder
  printf '%-12s %8s %12s %12s  %s\n' rate step loss validation state
  for folder in "$1"/lr-*; do
    [ -d "$folder" ] || continue
    printf '%-12s %8s %12s %12s  %s\n' "${folder##*/lr-}" "$(last_of step step "$folder")" \
      "$(last_of step loss "$folder")" "$(last_of eval val_loss "$folder")" "$(last_state "$folder")"
  done | sort -g
}

[ $# -ge 1 ] || usage
if [ "$1" = --table ]; then
  [ $# -eq 2 ] || usage
  [ -d "$2" ] || { echo "sweep.sh: there is no folder $2" >&2; exit 2; }
  table "$2"
  exit 0
fi

rates=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
  [[ $1 =~ ^[0-9.]+([eE][-+]?[0-9]+)?$ ]] || { echo "sweep.sh: '$1' is not a learning rate" >&2; exit 2; }
  rates+=("$1")
  shift
done
[ $# -eq 0 ] || shift
[ ${#rates[@]} -gt 0 ] || usage

RUN=$(realpath -m "${RUN:-$TOP/runs/sweep}")
mkdir -p "$RUN"
# Here, not by all of the runs at the same time.
if [ "${DATA:-$TOP/datasets/demo}" = "$TOP/datasets/demo" ]; then "$TOP/tools/demo_data.sh" "$TOP/datasets/demo"; fi
export RUN SWEEP_RATES="${rates[*]}"
echo "sweep of ${#rates[@]} learning rates in $RUN"
# --wait fails with the highest exit code of the runs; the table says which.
sbatch --wait --job-name=gpt-sweep --array="0-$((${#rates[@]} - 1))" --output="$RUN/%x-%A-%a.out" "$@" \
  "$TOP/slurm/train_4x8.sh" || echo "not all runs finished"
table "$RUN"
