# shellcheck shell=bash
# How a start of the program ended, and whether another one makes sense. Needs RUN; docs/slurm.md has the table.

MAX_CRASHES=${MAX_CRASHES:-5} # crashes of one job that are tried again
MAX_IDLE=${MAX_IDLE:-3}       # starts in a row that saved nothing new, after which there is no other

# The step of the newest checkpoint, 0 if there is none.
newest_step() {
  local file newest=0
  for file in "$RUN"/checkpoints/step-????????.h5; do
    [ -e "$file" ] || continue
    file=${file##*/step-}
    newest=$((10#${file%.h5}))
  done
  echo "$newest"
}

# The last step that nodes have kept in their memory (--memory-every), 0 if there is none.
newest_memory_step() {
  { sed -n '/^{"event":"memory_save",/ { /"nodes":0,/d; s/.*"step":\([0-9]*\).*/\1/p }' "$RUN/log.jsonl" 2>/dev/null || true; } |
    awk '$1 > newest { newest = $1 } END { print newest + 0 }'
}

# saved_steps: DISK/MEMORY, for record_end.
saved_steps() { echo "$(newest_step)/$(newest_memory_step)"; }

# Fields of verdict.json, which the program writes as one line in this order; empty where there is none.
verdict_code() { sed -n 's/^{"exit_code":\([0-9]*\),.*/\1/p' "$RUN/verdict.json" 2>/dev/null || true; }
verdict_rank() { sed -n 's/^{"exit_code":[0-9]*,"rank":\([0-9]*\),.*/\1/p' "$RUN/verdict.json" 2>/dev/null || true; }
verdict_reason() {
  sed -n 's/.*,"reason":"\(.*\)","reported_by":[0-9]*,"time":"[^"]*"}$/\1/p' "$RUN/verdict.json" 2>/dev/null || true
}

# outcome CODE: the program's exit code, given srun's, which is that of a killed rank when one rank ended the others.
outcome() {
  local told
  told=$(verdict_code)
  if [ "$1" = 0 ] || [ -z "$told" ]; then echo "$1"; else echo "$told"; fi
}

# kind_of CODE: finished; stopped (asked to, has saved); lost (a rank, node or the network); refused (it would be again);
# crashed (anything else).
kind_of() {
  case $1 in
    0) echo finished ;;
    3) echo stopped ;;
    10) echo lost ;;
    2 | 11 | 13 | 14) echo refused ;;
    *) echo crashed ;;
  esac
}

# crashes_so_far: of this job, in all its starts.
crashes_so_far() { count_ends 'kind=crashed '; }

# idle_starts: how many starts of this job in a row, the last ones, saved nothing new.
idle_starts() {
  awk -v job="job=$SLURM_JOB_ID" '
    $2 == "end" && $3 == job { idle = / progress=no( |$)/ ? idle + 1 : 0 }
    END { print idle + 0 }' "$RUN/slurm.log" 2>/dev/null || echo 0
}

count_ends() {
  awk -v job="job=$SLURM_JOB_ID" -v what="$1" '
    $2 == "end" && $3 == job && index($0, what) { ++count }
    END { print count + 0 }' "$RUN/slurm.log" 2>/dev/null || echo 0
}

# record_end CODE BEFORE [lost|left_out]: of a start before which saved_steps were BEFORE. lost: nodes that are gone
# explain its end, and it counts neither as a crash nor as idle; left_out: a node does that is left out from now on, and it
# is no crash. Only what goes beyond all that was saved before is progress, so that nothing repeats for ever.
record_end() {
  local kind disk memory before_memory=${2#*/}
  kind=$(kind_of "$1")
  disk=$(newest_step)
  memory=$(newest_memory_step)
  [ "$before_memory" -ge "${2%/*}" ] || before_memory=${2%/*}
  PROGRESS=no
  if [ "$disk" -gt "${2%/*}" ] || [ "$memory" -gt "$before_memory" ]; then PROGRESS=yes; fi
  case ${3:-no} in
    lost) kind=lost PROGRESS=yes ;;
    left_out) kind=lost ;;
  esac
  record end "code=$1 kind=$kind step=$((disk > memory ? disk : memory)) progress=$PROGRESS reason=$(verdict_reason)"
}

# reason_to_give_up KIND: empty if the job shall start again; to be asked after record_end.
reason_to_give_up() {
  local idle crashes
  idle=$(idle_starts)
  crashes=$(crashes_so_far)
  if [ "$1" = refused ]; then
    echo "it would fail again: see the message above"
  elif [ "${RECORDED:-yes}" = no ] && [ "${PROGRESS:-yes}" = no ]; then
    echo "it saved nothing new, and how often cannot be counted: $RUN/slurm.log cannot be written"
  elif [ "$idle" -ge "$MAX_IDLE" ]; then
    echo "starts in a row that saved nothing new: $idle (MAX_IDLE=$MAX_IDLE)"
  elif [ "$1" = crashed ] && [ "$crashes" -gt "$MAX_CRASHES" ]; then
    echo "it crashed $crashes times (MAX_CRASHES=$MAX_CRASHES)"
  fi
}

LEASE_S=60 # a lease that was not renewed for so many seconds is void
lease_waited=no

# await_lease CODE: whether the program was refused by the lease of a process that may have been killed, and its life is
# over now: then it is to be started again, once. A process that lives has renewed the lease meanwhile.
await_lease() {
  local renewed left
  [ "$1" = 2 ] && [ "$lease_waited" = no ] || return 1
  renewed=$(stat -c %Y "$RUN/lease.json" 2>/dev/null) || return 1
  left=$((renewed + LEASE_S + 2 - $(date +%s)))
  [ "$left" -ge 0 ] || return 1
  [ "$left" -le $((LEASE_S + 2)) ] || left=$((LEASE_S + 2)) # clocks differ
  lease_waited=yes
  say "the run folder may be in use by a start that was killed: waiting $left s, the rest of its lease"
  left=$((SECONDS + left))
  while [ "$SECONDS" -lt "$left" ]; do
    if must_stop_waiting; then requeue "$WHY_NOW"; fi # refused would end a chain
    pause
  done
}
