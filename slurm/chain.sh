#!/usr/bin/env bash
# chain.sh PARTS [SBATCH-OPTION…]: for queues with a short time limit: PARTS jobs of slurm/train_4x8.sh, each of which
# goes on where the one before stopped. The part that finishes the run, or cannot go on, cancels those that wait.
#   RUN=/shared/runs/a ARGS='--preset gpt2 --steps 20000' slurm/chain.sh 10 --time=01:00:00
# Settings are those of train_4x8.sh; SCRIPT may name another job script [train_4x8.sh].
set -euo pipefail
TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
SCRIPT=${SCRIPT:-$TOP/slurm/train_4x8.sh}

if [ $# -lt 1 ] || ! [[ $1 =~ ^[1-9][0-9]*$ ]]; then
  echo "usage: slurm/chain.sh PARTS [SBATCH-OPTION...]" >&2
  exit 2
fi
PARTS=$1
shift
RUN=$(realpath -m "${RUN:-$TOP/runs/chain}")
# Jobs of one name start one after the other (singleton), and are cancelled by it: the name is that of the run folder.
NAME=gpt-chain-$(basename "$RUN")-$(printf '%s' "$RUN" | cksum | cut -d ' ' -f 1)
export RUN CHAIN=yes REQUEUE=no
for ((part = 1; part <= PARTS; ++part)); do
  id=$(sbatch --parsable --no-requeue --job-name="$NAME" --dependency=singleton "$@" "$SCRIPT")
  echo "part $part of $PARTS: job ${id%%;*}"
done
echo "run folder $RUN; cancel all with: scancel --name=$NAME"
