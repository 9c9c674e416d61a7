#!/usr/bin/env bash
# mpirun.sh RANKS PROGRAM [ARGUMENT…]: Open MPI's mpirun on one machine, whoever the user is and however many cores
# there are. On a cluster use the site's own mpirun or srun.
set -euo pipefail
if [ $# -lt 2 ]; then
  echo "usage: tools/mpirun.sh RANKS PROGRAM [ARGUMENT...]" >&2
  exit 2
fi
RANKS=$1
shift
if ! [[ $RANKS =~ ^[1-9][0-9]*$ ]]; then
  echo "tools/mpirun.sh: '$RANKS' is not a number of ranks: tools/mpirun.sh RANKS PROGRAM [ARGUMENT...]" >&2
  exit 2
fi
if [[ $1 == */* && ! -x $1 ]]; then
  echo "tools/mpirun.sh: there is no program $1: ./run build makes it" >&2
  exit 2
fi
if [ "$(id -u)" = 0 ]; then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
# Containers often forbid the system call behind single-copy messages, and every message then prints an error.
export OMPI_MCA_btl_vader_single_copy_mechanism=${OMPI_MCA_btl_vader_single_copy_mechanism:-none}
# Bound to one core each, ranks with several threads would share it; without oversubscription, more ranks than cores
# would be refused.
exec mpirun --bind-to none --oversubscribe -n "$RANKS" "$@"
