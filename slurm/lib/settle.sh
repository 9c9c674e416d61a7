# shellcheck shell=bash
# What a job script does when the program has ended.

# Parts of a chain that wait have nothing to do any more, or would fail as this one did (chain.sh).
end_chain() {
  [ "${CHAIN:-no}" = yes ] || return 0
  say "the other parts of the chain are not needed"
  scancel --quiet --state=PENDING --user="$(id -un)" --name="$SLURM_JOB_NAME" || true
}

give_up() { # give_up CODE WHY
  say "not started again: $2"
  record give_up "code=$1 reason=$2"
  end_chain
  exit "$1"
}

# settle CODE: the last thing that a job script does; the end has been recorded.
settle() {
  local code=$1 kind why
  kind=$(kind_of "$code")
  if [ "$kind" = finished ]; then
    say "finished: $RUN"
    end_chain
    exit 0
  fi
  end_if_superseded
  if QUERY_S=$SLURM_PATIENCE_S is_being_ended; then # cancelled, or requeued by somebody else: not to be revived
    say "Slurm ends this job, or does not answer; newest checkpoint: step $(newest_step)"
    exit "$code"
  fi
  why=$(reason_to_give_up "$kind")
  [ -z "$why" ] || give_up "$code" "$why"
  if is_preempted; then
    say "preempted: waiting for Slurm to requeue this job"
    await_slurm
  fi
  requeue "$kind ($(verdict_reason))"
}

# Waits until Slurm ends this script, as long as it may take to find out that a node is gone, or to preempt, but not
# beyond the job's time.
await_slurm() {
  local until=$((SECONDS + SLURM_PATIENCE_S))
  while [ "$SECONDS" -lt "$until" ]; do
    if must_stop_waiting; then
      say "waiting no longer: $WHY_NOW"
      return
    fi
    pause
  done
}

# A job is requeued with its lost node only when Slurm has given that node up: before, it may lose count of its GPUs.
# Slurm then requeues the job by itself.
await_lost_nodes() {
  local nodes answering silent
  mapfile -t nodes < <(allocated_nodes)
  mapfile -t answering < <(answering_nodes "${nodes[@]}")
  mapfile -t silent < <(without "${answering[@]}" -- "${nodes[@]}")
  [ ${#silent[@]} -gt 0 ] || return 0
  say "no answer from ${silent[*]}: waiting for Slurm to give up and to requeue this job"
  record silent "nodes=$(IFS=,; echo "${silent[*]}")"
  await_slurm
}
