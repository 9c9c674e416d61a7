# shellcheck shell=bash
# A job array over learning rates (sweep.sh): each of its tasks is one run.

# rate_folder RATE: of its run, in the folder of the sweep.
rate_folder() { echo "lr-$1"; }

# apply_sweep: makes this job the run of its place in the array; nothing for other jobs.
apply_sweep() {
  [ -n "${SWEEP_RATES:-}" ] || return 0
  local rates rate
  read -r -a rates <<<"$SWEEP_RATES"
  rate=${rates[${SLURM_ARRAY_TASK_ID:-0}]:-}
  [ -n "$rate" ] || refuse "SWEEP_RATES='$SWEEP_RATES' has no rate number ${SLURM_ARRAY_TASK_ID:-0}"
  RUN=$RUN/$(rate_folder "$rate")
  ARGUMENTS+=(--lr "$rate")
}
