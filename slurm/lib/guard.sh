#!/usr/bin/env bash
# guard.sh BEATS ATTEMPT SCRIPTNODE: runs on every node beside the ranks, started by train_elastic.sh. It beats for its
# node, and if the node that runs the job script dies, it requeues the job: Slurm does not when a job has --no-kill.
# ATTEMPT is the start that it belongs to: it ends when the script has begun another one.
set -uo pipefail
BEATS=$1
ATTEMPT=$2
SCRIPT_NODE=$3
RUN=$(dirname "$(dirname "$BEATS")")
# shellcheck source=slurm/lib/beat.sh
. "$(dirname "${BASH_SOURCE[0]}")/beat.sh"
# shellcheck source=slurm/lib/job.sh
. "$(dirname "${BASH_SOURCE[0]}")/job.sh"
# shellcheck source=slurm/lib/exclude.sh
. "$(dirname "${BASH_SOURCE[0]}")/exclude.sh"

SCRIPT_SILENCE_S=${SCRIPT_SILENCE_S:-15} # the script waits for answers of Slurm now and then

script_is_silent() {
  listen script
  if [ -n "$BEAT" ] && [ "${BEAT%% *}" != "$ATTEMPT" ]; then exit 0; fi
  [ "$(silence_of script)" -ge "$SCRIPT_SILENCE_S" ]
}

# Slurm may lose count of the GPUs of a node that it has not given up yet, so that is waited for.
script_node_is_lost() {
  local nodes
  nodes=$(allocated_nodes)
  [ -n "$nodes" ] && ! grep -qxF "$SCRIPT_NODE" <<<"$nodes"
}

# Without a script a job that cannot start again would hold its nodes until its time is over, and train nothing.
requeue_or_cancel() {
  local reason="$SCRIPT_NODE, which ran the job script, was lost" code=0
  (requeue "$reason") || code=$?
  [ "$code" -ne 0 ] || exit 0
  if ! is_being_ended; then
    say "cancelled, since it cannot start again: $reason"
    record give_up "code=$code reason=$reason"
    query scancel "$JOB"
  fi
}

expect_beat script
while [ -d "$BEATS" ]; do
  beat "$SLURMD_NODENAME"
  if script_is_silent && script_node_is_lost; then
    sleep "${SLURM_PROCID:-0}" # one after the other: the first one does it
    if ! is_being_ended; then requeue_or_cancel; fi
  fi
  sleep "$BEAT_S"
done
