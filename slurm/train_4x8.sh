#!/usr/bin/env bash
#SBATCH --job-name=gpt-4x8
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=8
#SBATCH --cpus-per-task=4
#SBATCH --gpus-per-node=8
#SBATCH --time=04:00:00
#SBATCH --signal=USR1@300
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=%x-%j.out
# Trains on 4 nodes with 8 GPUs each, one rank a GPU, and goes on after a time limit, a preemption or a lost node:
#   sbatch slurm/train_4x8.sh
#   DATA=/shared/data RUN=/shared/runs/a ARGS='--preset gpt2 --steps 20000' sbatch --time=24:00:00 slurm/train_4x8.sh
#   DEVICE=cpu sbatch --gpus-per-node=0 slurm/train_4x8.sh       # a cluster without GPUs
# What is asked of Slurm is changed on sbatch's command line, the rest by these variables (docs/slurm.md):
#   DATA      dataset                                  [datasets/demo beside slurm/, made if it is missing]
#   RUN       run folder, on a file system that all nodes see   [runs/JOBNAME beside slurm/]
#   ARGS      further options of gpt_mpi
#   DEVICE    cpu, cuda                                [cuda where GPUs were granted, else auto]
#   PROGRAM   gpt_mpi                                  [beside slurm/]
#   SITE      slurm/env/SITE.sh, or a file
#   REQUEUE   no: never start again by itself          [yes]
#   MAX_CRASHES, MAX_IDLE   how often it is tried again [5, 3]
#   PREFLIGHT no: train without looking at the nodes first   [yes]
#   BLAME_S   seconds for which a node that failed there is left out   [3600]
set -euo pipefail

if [ -z "${SLURM_JOB_ID:-}" ]; then
  echo "usage: sbatch slurm/train_4x8.sh (settings are environment variables: its first lines list them)" >&2
  exit 2
fi
# Slurm runs a copy of this file, elsewhere.
for ((try = 0; try < 30; ++try)); do
  ! read -r script < <(scontrol show job "$SLURM_JOB_ID" 2>/dev/null | sed -n 's/^ *Command=//p') || break
  sleep 2
done
TOP=${TOP:-$(dirname "$(dirname "$script")")}
for part in job exclude outcome settle site sweep preflight; do
  # shellcheck source=slurm/lib/job.sh
  . "$TOP/slurm/lib/$part.sh"
done

DATA=${DATA:-$TOP/datasets/demo}
RUN=$(realpath -m "${RUN:-$TOP/runs/$SLURM_JOB_NAME}")
PROGRAM=${PROGRAM:-$TOP/gpt_mpi}
split_words "${ARGS:-}"
ARGUMENTS=("${WORDS[@]}")

# launch [OPTION…]: the program, as Slurm starts it on all nodes. --cpus-per-task is not inherited; a task sees all GPUs
# of its node, so that NCCL can go from GPU to GPU directly; a rank that dies takes the others with it. Becomes srun.
launch() {
  local gpus=()
  [ "$(granted_gpus)" = 0 ] || gpus=(--gpu-bind=none)
  exec srun --kill-on-bad-exit=1 --mpi="$MPI_TYPE" --cpus-per-task="${SLURM_CPUS_PER_TASK:-1}" "${gpus[@]}" \
    "${SRUN_OPTIONS[@]}" "${WRAPPER[@]}" "$PROGRAM" --data "$DATA" --out "$RUN" --device "$(device)" \
    "${ARGUMENTS[@]}" "$@"
}

# A node that lost power may have left the PMIx socket of a step in Slurm's spool folder, and the next step of the same
# job and number cannot start there: each start of the job uses another number.
skip_used_steps() {
  local step
  for ((step = 0; step < ${SLURM_RESTART_COUNT:-0}; ++step)); do
    srun --quiet -N1 -n1 --mpi=none --job-name=skipped true </dev/null || true
  done
}

# Looks at the nodes. Where some are not fit, the job is requeued without them if there are enough others; where the job
# itself is not, it ends. A preflight that says nothing is left to the start itself.
check_nodes() {
  local pid until code bad others
  PREFLIGHT_OUT=$(mktemp)
  launch --preflight </dev/null >"$PREFLIGHT_OUT" &
  pid=$!
  until=$((SECONDS + PREFLIGHT_S))
  while kill -0 "$pid" 2>/dev/null; do
    pause
    [ "$SECONDS" -lt "$until" ] || kill -KILL "$pid" 2>/dev/null || true
  done
  await "$pid" || true
  cat "$PREFLIGHT_OUT"
  code=$(preflight_code)
  mapfile -t bad < <(preflight_exclude)
  rm -f "$PREFLIGHT_OUT"
  [ "${code:-0}" != 0 ] || return 0
  if [ ${#bad[@]} -eq 0 ]; then
    record_end "$code" "$before"
    give_up "$code" "the preflight refuses the job, whatever the nodes: see the message above"
  fi
  record_end "$code" "$before" left_out
  exclude_nodes "preflight" "${bad[@]}"
  others=$(other_nodes) || others=$SLURM_JOB_NUM_NODES
  if [ "$others" -lt "$SLURM_JOB_NUM_NODES" ]; then
    give_up "$code" "${bad[*]} failed the preflight, and only $others other nodes are there"
  fi
  settle 10
}

load_site
apply_sweep
end_if_superseded
check_program
make_demo_data
tell_end_of_job
settle_resume
note_exclusions
skip_used_steps
rm -f "$RUN/verdict.json" # of the last start: this one may end before it writes its own
before=$(saved_steps)
say "start $((${SLURM_RESTART_COUNT:-0} + 1)) at step $(newest_step): $SLURM_NTASKS ranks on $SLURM_JOB_NODELIST"
say "run folder $RUN (log.jsonl, checkpoints/), dataset $DATA; slurm/status.sh $JOB shows where it is"
record start "nodes=$SLURM_JOB_NODELIST ranks=$SLURM_NTASKS step=$(newest_step) run=$RUN"
query scontrol update JobId="$JOB" Comment="$RUN" || true # for status.sh

# Slurm signals this script together with the ranks, which save; it stays to see how they end.
stop=''
trap 'say "SIGTERM"' TERM
trap 'stop="asked to stop"' USR1
if wants_preflight; then check_nodes; fi
while :; do
  launch </dev/null &
  code=0
  await $! || code=$?
  code=$(outcome "$code")
  await_lease "$code" || break
  end_if_superseded
  rm -f "$RUN/verdict.json"
done
end_if_superseded
record_end "$code" "$before"
say "gpt_mpi ended with exit code $code ($(kind_of "$code")) at step $(newest_step)"
case $(kind_of "$code") in lost | crashed) await_lost_nodes ;; esac
settle "$code"
