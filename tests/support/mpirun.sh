#!/usr/bin/env bash
# mpirun.sh RANKS PROGRAM [ARGUMENT…]: mpirun as the tests need it: waiting ranks leave their core to others.
set -euo pipefail
export OMPI_MCA_mpi_yield_when_idle=1
exec "$(dirname "${BASH_SOURCE[0]}")/../../tools/mpirun.sh" "$@"
