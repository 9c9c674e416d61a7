# shellcheck shell=bash
# How often a job is requeued to become larger: slurm.log has each attempt. Needs RUN.

MAX_GROWS=${MAX_GROWS:-3}             # attempts in a row that brought no node, after which there is no other
GROW_BACKOFF_S=${GROW_BACKOFF_S:-600} # seconds after the first such, then twice as many each time

# may_grow NODES: whether a job with so many nodes may be requeued for more.
may_grow() {
  awk -v job="job=$SLURM_JOB_ID" -v nodes="$1" -v now="$(date +%s)" -v most="$MAX_GROWS" -v wait="$GROW_BACKOFF_S" '
    $2 == "grow" && $3 == job {
      had = substr($5, length("have=") + 1) + 0
      if (count && had > before) count = 0
      before = had
      at = substr($6, length("at=") + 1)
      ++count
    }
    END { exit !(!count || nodes > before || (count < most && now - at >= wait * 2 ^ (count - 1))) }' \
    "$RUN/slurm.log" 2>/dev/null || return 1
}
