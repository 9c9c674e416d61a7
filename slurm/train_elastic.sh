#!/usr/bin/env bash
#SBATCH --job-name=gpt-elastic
#SBATCH --nodes=2-4
#SBATCH --exclusive
#SBATCH --gpus-per-node=8
#SBATCH --time=04:00:00
#SBATCH --signal=B:USR1@300
#SBATCH --no-kill
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=%x-%j.out
# Trains on as many nodes as there are: when one dies or hangs, it goes on with the others in the same allocation; when
# one comes back, it is taken in at the next checkpoint.
#   sbatch slurm/train_elastic.sh
#   DATA=/shared/data RUN=/shared/runs/a ARGS='--preset gpt2' MIN_NODES=4 MAX_NODES=16 GROW=requeue \
#     sbatch --nodes=4-16 slurm/train_elastic.sh
# Ask for nodes only, not for tasks: with --ntasks or --ntasks-per-node Slurm would not start the job again on fewer.
# DATA, RUN, ARGS, DEVICE, PROGRAM, SITE, REQUEUE, MAX_CRASHES, MAX_IDLE, PREFLIGHT are those of train_4x8.sh, and:
#   TASKS_PER_NODE  ranks a node                                  [its GPUs, 8 if there are none]
#   MIN_NODES       as in --nodes: with fewer it does not train but is requeued   [2]
#   MAX_NODES       as in --nodes, or less: the rest are spare    [4]
#   GROW            requeue: also be requeued when idle nodes would make the job larger   [place]
#   GROW_S          seconds between two looks for more nodes      [60]
#   ON_RESIZE       shrink: with fewer nodes a smaller batch than --global-batch in ARGS, and learning rate [keep]
#   LR_SCALING      of the learning rate with the batch: linear, sqrt, none       [linear]
#   BLAME_S         seconds for which a node is left out that failed the preflight, or on which a rank hung [3600]
set -euo pipefail

if [ -z "${SLURM_JOB_ID:-}" ]; then
  echo "usage: sbatch slurm/train_elastic.sh (settings are environment variables: its first lines list them)" >&2
  exit 2
fi
# Slurm runs a copy of this file, elsewhere.
for ((try = 0; try < 30; ++try)); do
  ! read -r script < <(scontrol show job "$SLURM_JOB_ID" 2>/dev/null | sed -n 's/^ *Command=//p') || break
  sleep 2
done
TOP=${TOP:-$(dirname "$(dirname "$script")")}
for part in job exclude outcome settle site beat resize grow preflight; do
  # shellcheck source=slurm/lib/job.sh
  . "$TOP/slurm/lib/$part.sh"
done

DATA=${DATA:-$TOP/datasets/demo}
RUN=$(realpath -m "${RUN:-$TOP/runs/$SLURM_JOB_NAME}")
PROGRAM=${PROGRAM:-$TOP/gpt_mpi}
gpus=$(granted_gpus)
TASKS_PER_NODE=${TASKS_PER_NODE:-$((gpus > 0 ? gpus : 8))}
CPUS_PER_TASK=${CPUS_PER_TASK:-$((SLURM_CPUS_ON_NODE > TASKS_PER_NODE ? SLURM_CPUS_ON_NODE / TASKS_PER_NODE : 1))}
MIN_NODES=${MIN_NODES:-2}
MAX_NODES=${MAX_NODES:-4}
GROW=${GROW:-place}
GROW_S=${GROW_S:-60}
ON_RESIZE=${ON_RESIZE:-keep}
LR_SCALING=${LR_SCALING:-linear}
split_words "${ARGS:-}"
ARGUMENTS=("${WORDS[@]}")
# A node that dies is noticed without it, so this is for ranks that hang.
take_option --timeout 120
timeout=$VALUE
take_option --global-batch ''
global_batch=$VALUE
BEATS=$RUN/.beats/$SLURM_JOB_ID-${SLURM_RESTART_COUNT:-0}

stop=''                   # why the program shall stop, once it shall
asked=''                  # why it has been asked to
nodes=()                  # on which it runs
LOST=()                   # of them, those that are gone
attempt=0                 # starts of the program in this start of the job

list() { (IFS=,; echo "$*"); }

check_settings() {
  [[ $GROW == place || $GROW == requeue ]] || refuse "GROW=$GROW: use place or requeue"
  [[ $ON_RESIZE == keep || $ON_RESIZE == shrink ]] || refuse "ON_RESIZE=$ON_RESIZE: use keep or shrink"
  [[ $ON_RESIZE == keep || -n $global_batch ]] || refuse "ON_RESIZE=shrink: --global-batch in ARGS says of what"
  [ "$MIN_NODES" -le "$MAX_NODES" ] || refuse "MIN_NODES=$MIN_NODES is more than MAX_NODES=$MAX_NODES"
}

# A second goes by, in which signals are heard and the guards hear of the script.
pause() {
  beat script "$attempt"
  sleep 1 &
  wait $! || true
}

# Of the nodes in use, those that are not there any more, into the array LOST.
list_lost() {
  local answering
  mapfile -t answering < <(answering_nodes "$@")
  mapfile -t LOST < <(without "${answering[@]}" -- "$@")
}

# Options by the number of nodes.
batch_options() {
  local batch=$global_batch
  if [ "$ON_RESIZE" = shrink ]; then
    batch=$(resized_batch "$batch" "$(shards_of "$DATA")" ${#nodes[@]} "$MAX_NODES" \
      $((${#nodes[@]} * TASKS_PER_NODE)))
    echo "--lr-scaling $LR_SCALING --base-batch $global_batch"
  fi
  if [ -n "$batch" ]; then echo "--global-batch $batch"; fi
}

# step_on NAME TASKS-PER-NODE OPTION… COMMAND…: becomes an srun on the nodes in use. --overlap: the step of a dead node
# stays in the books, and holds CPUs and GPUs of the others. --no-kill: Slurm leaves the rest of a step alone.
step_on() {
  local name=$1 tasks=$2
  shift 2
  exec srun --overlap --no-kill --job-name="$name" --nodes="${#nodes[@]}" --ntasks=$((${#nodes[@]} * tasks)) \
    --ntasks-per-node="$tasks" --nodelist="$(list "${nodes[@]}")" "$@" </dev/null
}

# launch NAME [OPTION…]: the program, as a step of that name.
launch() {
  local gpu_options=()
  [ "$gpus" = 0 ] || gpu_options=(--gpu-bind=none)
  split_words "$(batch_options)"
  step_on "$1-$attempt" "$TASKS_PER_NODE" --distribution=block --kill-on-bad-exit=1 --mpi="$MPI_TYPE" \
    --cpus-per-task="$CPUS_PER_TASK" "${gpu_options[@]}" "${SRUN_OPTIONS[@]}" \
    "${WRAPPER[@]}" "$PROGRAM" --data "$DATA" --out "$RUN" --device "$(device)" --timeout "$timeout" \
    "${WORDS[@]}" "${ARGUMENTS[@]}" "${@:2}"
}

launch_guards() {
  step_on "guard-$attempt" 1 --quiet --kill-on-bad-exit=0 --mpi=none --cpus-per-task=1 \
    "$TOP/slurm/lib/guard.sh" "$BEATS" "$attempt" "$SLURMD_NODENAME"
}

# end_step NAME: ends the program everywhere. srun would wait KillWait + 2 s for the tasks of a dead node, and scancel for
# an answer.
end_step() {
  local step
  step=$(QUERY_S=5 query squeue -h -s -j "$SLURM_JOB_ID" -o '%i %j' |
    awk -v name="$1-$attempt" '$2 == name { print $1 }' || true)
  if [ -n "$step" ]; then scancel --quiet --signal=KILL "$step" & fi
  kill -KILL "$program" 2>/dev/null || true
}

# The program checkpoints, then ends with code 3; srun passes the signal on to all ranks.
ask_to_stop() {
  asked=$1
  say "asking gpt_mpi to stop: $asked"
  kill -USR1 "$program" 2>/dev/null || true
}

# Listens to the nodes in use. Those that have not beaten for SILENCE_S and do not answer either stand in LOST.
listen_to_nodes() {
  local node silent=()
  LOST=()
  for node in "${nodes[@]}"; do
    listen "$node"
    [ "$(silence_of "$node")" -lt "$SILENCE_S" ] || silent+=("$node")
  done
  if [ ${#silent[@]} -gt 0 ]; then list_lost "${silent[@]}"; fi
}

# Idle nodes of the partition, if no other job waits for them.
idle_nodes() {
  local waiting idle
  waiting=$(QUERY_S=0 query squeue -h -t PD -p "$SLURM_JOB_PARTITION" -o %i) || waiting=unknown
  idle=$(QUERY_S=0 query sinfo -h -N -p "$SLURM_JOB_PARTITION" -t idle -o %N) || idle=''
  if [ -n "$waiting" ] || [ -z "$idle" ]; then echo 0; else wc -l <<<"$idle"; fi
}

# Asks the program to stop if a node of the allocation has come back, or a requeued job would be larger.
look_for_nodes() {
  local have spare missing
  mapfile -t have < <(QUERY_S=0 allocated_nodes)
  [ ${#have[@]} -gt 0 ] || return 0 # Slurm does not answer
  missing=$((MAX_NODES - ${#have[@]}))
  mapfile -t BLAMED < <(excluded_nodes)
  mapfile -t spare < <(without "${nodes[@]}" "${BLAMED[@]}" -- "${have[@]}")
  if [ ${#nodes[@]} -lt "$MAX_NODES" ] && [ ${#spare[@]} -gt 0 ]; then
    mapfile -t spare < <(answering_nodes "${spare[@]}")
    if [ ${#spare[@]} -gt 0 ]; then ask_to_stop "grow by ${spare[*]}"; fi
  elif [ "$GROW" = requeue ] && [ "$missing" -gt 0 ] && [ "$(idle_nodes)" -ge "$missing" ] &&
    may_grow ${#have[@]}; then
    record grow "have=${#have[@]} at=$(date +%s)"
    ask_to_stop "requeue for $MAX_NODES nodes"
  fi
}

# follow NAME [SECONDS]: watches the step of that name, the process `program`, until it ends, or has to be ended; sets CODE.
follow() {
  local name=$1 until=$((SECONDS + ${2:-0})) look=$((SECONDS + GROW_S))
  CODE=''
  while kill -0 "$program" 2>/dev/null; do
    pause
    if [ "$name" = train ] && [ -n "$stop" ] && [ -z "$asked" ]; then ask_to_stop "$stop"; fi
    listen_to_nodes
    if [ ${#LOST[@]} -gt 0 ]; then
      say "no answer from ${LOST[*]}"
      CODE=10
      end_step "$name"
      break
    elif [ "$(kind_of "$(verdict_code)")" = lost ]; then
      pause
      pause
      end_step "$name"
      break
    elif [ "$name" = check ]; then
      [ "$SECONDS" -lt "$until" ] || end_step "$name"
    elif [ -z "$asked" ] && [ "$SECONDS" -ge "$look" ]; then
      look_for_nodes
      look=$((SECONDS + GROW_S))
    fi
  done
  if [ -z "$CODE" ]; then
    CODE=0
    await "$program" || CODE=$?
    CODE=$(outcome "$CODE")
  fi
  wait "$program" 2>/dev/null || true
}

# Looks at the nodes in use before the program is started there. False: CODE is 14, and those in REFUSED are not fit, or
# none and the job is not; or CODE is 10, and those in LOST are gone. A preflight that says nothing is left to the start.
nodes_pass() {
  local code
  PREFLIGHT_OUT=$(mktemp)
  REFUSED=()
  launch check --preflight >"$PREFLIGHT_OUT" &
  program=$!
  follow check "$PREFLIGHT_S"
  cat "$PREFLIGHT_OUT"
  code=$(preflight_code)
  mapfile -t REFUSED < <(preflight_exclude)
  rm -f "$PREFLIGHT_OUT"
  [ ${#LOST[@]} -eq 0 ] || return 1
  [ "${code:-0}" != 0 ] || return 0
  CODE=$code
  return 1
}

# Runs the program on the nodes in use, until it ends or has to be ended; sets CODE.
run_program() {
  local guards node
  rm -f "$RUN/verdict.json" # of the last start
  asked='' CODE='' REFUSED=() LOST=()
  for node in "${nodes[@]}"; do
    rm -f "$BEATS/$node"
    expect_beat "$node"
  done
  beat script "$attempt"
  launch_guards &
  guards=$!
  if ! wants_preflight || nodes_pass; then
    launch train &
    program=$!
    follow train
  fi
  kill -KILL "$guards" 2>/dev/null || true # those on the nodes hear of the next attempt
  wait "$guards" 2>/dev/null || true
}

# blame: leaves nodes out that answer and would be taken again: those that failed the preflight, or the one on which a
# rank hung. False if there is none.
blame() {
  local rank
  if [ ${#REFUSED[@]} -gt 0 ]; then
    exclude_nodes preflight "${REFUSED[@]}"
    return
  fi
  rank=$(verdict_rank)
  [ "$(kind_of "$CODE")" = lost ] && [ -n "$rank" ] || return 1
  exclude_nodes "$(verdict_reason)" "${nodes[$((rank / TASKS_PER_NODE))]}"
}

# Whether the end of the program is explained: sets EXPLAINED to lost if nodes are gone, left_out if some are left out
# from now on, or no.
explain() {
  EXPLAINED=no
  [ ${#LOST[@]} -gt 0 ] || [ ${#REFUSED[@]} -gt 0 ] || list_lost "${nodes[@]}"
  if [ ${#LOST[@]} -gt 0 ]; then
    say "lost: ${LOST[*]}"
    EXPLAINED=lost
  elif blame; then
    EXPLAINED=left_out
  fi
}

# All nodes answer, and too few are not left out: requeues without these if there are enough others, else gives up if
# the preflight refused them, or tries them again. A start that is counted as idle, so that this comes to an end.
do_without_the_blamed() {
  local others why
  record_end 10 "$(saved_steps)" left_out
  why=$(reason_to_give_up lost)
  [ -z "$why" ] || give_up 10 "$why"
  others=$(other_nodes) || others=$MIN_NODES
  if [ "$others" -ge "$MIN_NODES" ]; then requeue "fewer than $MIN_NODES nodes"; fi
  if [ ${#REFUSED[@]} -gt 0 ]; then
    give_up 14 "${BLAMED[*]} failed the preflight or hung, and only $others other nodes are there"
  fi
  forgive_nodes "only $others others are there, $MIN_NODES are needed"
}

# Finds the nodes to run on: those that answer and are not left out. Requeues when they are too few and stay so: when
# Slurm has given up those that do not answer, since before it may lose count of their GPUs. Nodes that have just been
# found in LOST are not asked at first.
find_nodes() {
  local have answering usable said=''
  while :; do
    mapfile -t have < <(allocated_nodes)
    mapfile -t answering < <(without "${LOST[@]}" -- "${have[@]}")
    mapfile -t answering < <(answering_nodes "${answering[@]}")
    LOST=()
    mapfile -t BLAMED < <(excluded_nodes)
    # In the order of srun's ranks.
    mapfile -t usable < <(among "${answering[@]}" -- "${have[@]}")
    mapfile -t usable < <(without "${BLAMED[@]}" -- "${usable[@]}")
    if [ ${#usable[@]} -ge "$MIN_NODES" ]; then
      nodes=("${usable[@]:0:MAX_NODES}")
      return
    fi
    if [ ${#have[@]} -gt 0 ] && is_being_ended; then exit 1; fi
    if must_stop_waiting; then requeue "$WHY_NOW"; fi
    if [ "$said" != "${#usable[@]} of ${#have[@]}" ]; then
      said="${#usable[@]} of ${#have[@]}"
      say "$said nodes can be used, $MIN_NODES are needed"
    fi
    if [ ${#have[@]} -gt 0 ] && [ ${#answering[@]} -eq ${#have[@]} ]; then # none: Slurm does not answer
      [ ${#BLAMED[@]} -gt 0 ] || requeue "fewer than $MIN_NODES nodes"
      do_without_the_blamed
    fi
    pause
    pause
  done
}

trap 'stop="the end of the job is near"' USR1
trap 'say SIGTERM' TERM # the ranks have got it too
trap 'rm -rf "$BEATS"' EXIT

load_site
check_settings
check_program
make_demo_data
tell_end_of_job
end_if_superseded
settle_resume
note_exclusions
rm -rf "$RUN/.beats/$SLURM_JOB_ID"-*
mkdir -p "$BEATS"
say "start $((${SLURM_RESTART_COUNT:-0} + 1)): $SLURM_JOB_NODELIST, this script on $SLURMD_NODENAME"
say "run folder $RUN (log.jsonl, checkpoints/), dataset $DATA; slurm/status.sh $SLURM_JOB_ID shows where it is"
query scontrol update JobId="$JOB" Comment="$RUN" || true # for status.sh
while :; do
  find_nodes
  attempt=$((attempt + 1))
  end_if_superseded
  settle_resume
  before=$(saved_steps)
  say "training on ${#nodes[@]} nodes from step $(newest_step): ${nodes[*]}"
  record start "nodes=$(list "${nodes[@]}") ranks=$((${#nodes[@]} * TASKS_PER_NODE)) step=$(newest_step) run=$RUN"
  run_program
  end_if_superseded
  if [ ${#REFUSED[@]} -eq 0 ] && await_lease "$CODE"; then continue; fi
  kind=$(kind_of "$CODE")
  EXPLAINED=no
  if [ ${#REFUSED[@]} -gt 0 ]; then kind=lost; fi
  case $kind in lost | crashed) explain ;; esac
  # A preflight that leaves enough nodes has cost seconds only.
  [ ${#REFUSED[@]} -gt 0 ] || record_end "$CODE" "$before" "$EXPLAINED"
  say "gpt_mpi ended with exit code $CODE ($kind) at step $(newest_step)${asked:+, asked to: $asked}"
  case $kind in
    finished | refused) settle "$CODE" ;;
    stopped) [[ $asked == grow* ]] || settle "$CODE" ;;
    *)
      if [ ${#REFUSED[@]} -gt 0 ]; then continue; fi
      if QUERY_S=$SLURM_PATIENCE_S is_being_ended; then settle "$CODE"; fi
      if [ "$EXPLAINED" != lost ]; then
        why=$(reason_to_give_up "$kind")
        [ -z "$why" ] || give_up "$CODE" "$why"
      fi
      [ -z "$stop" ] || requeue "$stop"
      ;;
  esac
done
