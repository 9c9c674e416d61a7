#!/usr/bin/env bash
# status.sh RUN|JOBID: where a training run is, on one screen.
set -euo pipefail
TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=slurm/lib/log.sh
. "$TOP/slurm/lib/log.sh"

if [ $# -ne 1 ]; then
  echo "usage: slurm/status.sh RUN|JOBID" >&2
  exit 2
fi

# folder_of JOB: its run folder, which the job scripts leave in the job's comment.
folder_of() { scontrol show job "$1" 2>/dev/null | sed -n 's/^ *Comment=\(.*[^ ]\) *$/\1/p' || true; }

line() { printf '%-16s %s\n' "$1" "$2"; }

if [ -d "$1" ]; then
  run=$1
  job=$(sed -n 's/^[^ ]* [^ ]* job=\([0-9]*\) .*/\1/p' "$run/slurm.log" 2>/dev/null | tail -n 1 || true)
elif [[ $1 =~ ^[0-9]+(_[0-9]+)?$ ]]; then
  job=$1
  run=$(folder_of "$job")
  if [ ! -d "$run" ]; then
    echo "status.sh: job $job is not known to Slurm (any more), or has not started: name the run folder instead" >&2
    exit 2
  fi
else
  echo "status.sh: '$1' is neither a run folder nor the number of a job" >&2
  exit 2
fi

count() { grep -c "^[^ ]* $1 " "$run/slurm.log" 2>/dev/null || true; }

newest_checkpoint() {
  local file
  file=$(find "$run/checkpoints" -maxdepth 1 -name 'step-????????.h5' 2>/dev/null | sort | tail -n 1)
  [ -n "$file" ] || { echo none; return; }
  echo "$file, $(($(date +%s) - $(stat -c %Y "$file"))) s ago"
}

# Nodes that the last job does without now.
excluded_nodes() {
  [ -n "$job" ] || return 0
  SLURM_JOB_ID=$job
  (
    RUN=$run
    # shellcheck source=slurm/lib/exclude.sh
    . "$TOP/slurm/lib/exclude.sh"
    excluded_nodes | xargs
  )
}

line run "$run"
line state "$(last_state "$run")"
state=$([ -z "$job" ] || squeue -h -j "$job" -o '%T on %N (%D nodes), %L of its time left' 2>/dev/null || true)
line "job ${job:-none}" "${state:-not in the queue}"
line step "$(last_of step step "$run") of $(last_of start steps "$run")"
line loss "$(last_of step loss "$run"), validation $(last_of eval val_loss "$run")"
line tokens/s "$(last_of step tokens_per_second "$run") on $(last_of start ranks "$run") ranks"
line checkpoint "$(newest_checkpoint)"
starts=$(count start)
line restarts "$((${starts:-0} > 0 ? starts - 1 : 0))"
excluded=$(excluded_nodes)
line excluded "${excluded:-no nodes}"
