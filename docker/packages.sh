#!/usr/bin/env bash
# packages.sh build|run: installs what compiling gpt_mpi needs, or what running it in a container does. Debian 12, as root.
set -euo pipefail

# As in ./run, which the test system.containers compares.
BUILD_PACKAGES=(g++ cmake ninja-build openmpi-bin libopenmpi-dev libhdf5-openmpi-dev libdnnl-dev
  libboost-program-options-dev libfmt-dev libxxhash-dev nlohmann-json3-dev libhwy-dev)
# Libraries that those are linked with, and what mpirun starts ranks of other hosts by.
RUN_PACKAGES=(openmpi-bin libopenmpi3 libhdf5-openmpi-103-1 libdnnl2 libboost-program-options1.74.0 libfmt9
  libhwy1 libgomp1 openssh-client openssh-server)

case ${1:-} in
  build) packages=("${BUILD_PACKAGES[@]}") ;;
  run) packages=("${RUN_PACKAGES[@]}") ;;
  *)
    echo "usage: docker/packages.sh build|run" >&2
    exit 2
    ;;
esac
export DEBIAN_FRONTEND=noninteractive
apt-get update
apt-get install -y --no-install-recommends "${packages[@]}"
rm -rf /var/lib/apt/lists/*
