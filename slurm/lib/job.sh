# shellcheck shell=bash disable=SC2034  # RECORDED is for outcome.sh
# What a job script knows of its job, says about it, and asks of Slurm. Needs RUN, TOP.

# The job as Slurm's commands know it: the number of an array's last task is that of the whole array, too.
JOB=${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID:-}}
JOB=${JOB:-$SLURM_JOB_ID}

say() { printf '%(%F %T)T job %s: %s\n' -1 "$SLURM_JOB_ID" "$*"; }

# refuse MESSAGE: ends the job for a reason that no requeue would help.
refuse() {
  say "refused: $1" >&2
  exit 2
}

# record EVENT [NAME=VALUE…]: a line of slurm.log in the run folder. Retries are counted in it, status.sh reads it. On a
# full disk the job goes on without; RECORDED says so.
record() {
  RECORDED=yes
  { mkdir -p "$RUN" && printf '%s %s job=%s restart=%s %s\n' "$(date -u +%FT%TZ)" "$1" "$SLURM_JOB_ID" \
    "${SLURM_RESTART_COUNT:-0}" "${*:2}" >>"$RUN/slurm.log"; } 2>/dev/null || {
    RECORDED=no
    say "cannot write $RUN/slurm.log: $*"
  }
}

QUERY_S=${QUERY_S:-60}                    # seconds for which Slurm is asked again while it does not answer
SLURM_PATIENCE_S=${SLURM_PATIENCE_S:-900} # seconds for which Slurm may be away, or take to give up a node
BLAME_S=${BLAME_S:-3600}                  # seconds for which a node is left out that hung or failed the preflight
END_MARGIN_S=${END_MARGIN_S:-30}          # seconds before the end of the job at which nothing is waited for any more

# A second goes by, in which signals are heard: a trap interrupts wait, not sleep.
pause() {
  sleep 1 &
  wait $! || true
}

# query COMMAND…: what a command of Slurm prints; false if it has failed for QUERY_S seconds.
query() {
  local until=$((SECONDS + QUERY_S)) answer
  until answer=$(timeout -s KILL 30 "$@" 2>/dev/null); do
    [ "$SECONDS" -lt "$until" ] || return 1
    sleep 1
  done
  [ -z "$answer" ] || printf '%s\n' "$answer"
}

job_field() { query squeue -h -j "$JOB" -o "$1"; } # job_field FORMAT: of squeue; false if Slurm does not answer

job_setting() { # job_setting NAME: as scontrol shows it
  local shown
  shown=$(query scontrol show job "$JOB") || return 1
  sed -n "s/^\(.* \)\?$1=\([^ ]*\).*/\2/p" <<<"$shown"
}

# Whether Slurm ends this job: cancelled, requeued, at its time limit. False only if Slurm says that it runs: a job that
# was cancelled must not be revived because nobody could be asked.
is_being_ended() {
  case $(job_field %T) in
    RUNNING | RESIZING | SIGNALING) return 1 ;;
  esac
}

# Ends this script if the job has been started again since: its node was cut off, and is back. Whatever stands in the
# run folder is the other start's.
end_if_superseded() {
  local restarts
  restarts=$(job_setting Restarts) || return 0
  [ -z "$restarts" ] || [ "$restarts" = "${SLURM_RESTART_COUNT:-0}" ] || exit 0
}

# Whether nothing may be waited for any more: somebody asked to stop, or the end of the job is near. Sets WHY_NOW.
must_stop_waiting() {
  WHY_NOW=${stop:-}
  if [ -z "$WHY_NOW" ] && [ "${SLURM_JOB_END_TIME:-0}" -gt 0 ] &&
    [ "$(date +%s)" -ge $((SLURM_JOB_END_TIME - END_MARGIN_S)) ]; then
    WHY_NOW="the end of the job is near"
  fi
  [ -n "$WHY_NOW" ]
}

# Slurm gives a preempted job time to save, and requeues it by itself if it is still there at the end of that time.
is_preempted() {
  local since
  since=$(job_setting PreemptTime) || return 1
  [ -n "$since" ] && [ "$since" != None ]
}

# The program stops in time for the end of the job, where it is told: older versions of Slurm do not tell.
tell_end_of_job() {
  [ -z "${SLURM_JOB_END_TIME:-}" ] || return 0
  local end
  end=$(date -d "$(job_field %e)" +%s 2>/dev/null) || return 0
  export SLURM_JOB_END_TIME=$end
}

# await PID: the exit code of a child, whatever signals come meanwhile.
await() {
  local code=0
  while kill -0 "$1" 2>/dev/null; do wait "$1" || true; done
  wait "$1" || code=$?
  return "$code"
}

# Nodes that Slurm still counts to the job: unlike SLURM_JOB_NODELIST this shrinks when a node is given up. None if Slurm
# does not answer.
allocated_nodes() {
  local nodes
  nodes=$(job_field %N) || return 0
  [ -z "$nodes" ] || scontrol show hostnames "$nodes" 2>/dev/null || true
}

# answering_nodes NODE…: those that start a process within PROBE_S seconds. A node that hangs takes the request and
# never answers.
answering_nodes() {
  local node
  for node in "$@"; do
    { timeout -s KILL "${PROBE_S:-5}" srun --quiet --overlap -N1 -n1 -w "$node" --mpi=none --job-name=probe true \
      </dev/null >/dev/null && echo "$node"; } 2>/dev/null &
  done
  wait
}

# without EXCLUDED… -- NODE…: the nodes that are not among the excluded, in their order.
without() {
  local excluded=' ' node
  while [ "$1" != -- ]; do
    excluded+="$1 "
    shift
  done
  shift
  for node in "$@"; do [[ $excluded == *" $node "* ]] || echo "$node"; done
}

# among CHOSEN… -- NODE…: the nodes that are among the chosen, in the order of the nodes.
among() {
  local chosen=' ' node
  while [ "$1" != -- ]; do
    chosen+="$1 "
    shift
  done
  shift
  for node in "$@"; do [[ $chosen != *" $node "* ]] || echo "$node"; done
}

# requeue REASON: ends this script; the job starts again, without the nodes that are left out. Exit code 3 if it does not.
requeue() {
  local reason=$1 until=$((SECONDS + SLURM_PATIENCE_S)) answer
  trap '' TERM USR1
  if [ "${REQUEUE:-yes}" != yes ]; then
    say "not requeued (REQUEUE=$REQUEUE): $reason"
    exit 3
  fi
  end_if_superseded
  say "requeue: $reason"
  while :; do
    end_if_superseded
    if QUERY_S=$((until > SECONDS ? until - SECONDS : 0)) is_being_ended; then
      say "not requeued: Slurm ends this job, or does not answer"
      exit 3
    fi
    ! answer=$(timeout -s KILL 30 scontrol requeue Incomplete "$JOB" 2>&1) || break
    if [ "$SECONDS" -ge "$until" ] || [[ $answer == *isabled* || $answer == *denied* ]]; then
      say "Slurm does not requeue this job: ${answer:-no answer}. Submit it again, it goes on where it stands"
      exit 3
    fi
    pause
  done
  record requeue "reason=$reason"
  update_exclusions
  exit 0
}
