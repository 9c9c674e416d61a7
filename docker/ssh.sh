#!/usr/bin/env bash
# ssh.sh [ROOT]: the user mpiuser, and an ssh server that he can start himself, on a port above 1024, with the keys that the
# MPI Operator mounts at /home/mpiuser/.ssh. As root, when an image is built. ROOT: a folder to do it in, for tests.
set -euo pipefail
ROOT=${1:-}
PORT=${PORT:-2222}
HOME_OF_USER=/home/mpiuser

add_user() {
  [ -n "$ROOT" ] || useradd --create-home --uid 1000 --shell /bin/bash mpiuser
  mkdir -p "$ROOT$HOME_OF_USER" "$ROOT/etc/ssh/ssh_config.d" "$ROOT/run/sshd"
}

# The operator's secret is one key pair for all pods: it is the host's key as well. It is mounted read-only and readable by
# the group, which StrictModes would refuse.
write_server() {
  cat >"$ROOT$HOME_OF_USER/.sshd_config" <<TEXT
Port $PORT
PidFile $HOME_OF_USER/sshd.pid
HostKey $HOME_OF_USER/.ssh/id_rsa
AuthorizedKeysFile $HOME_OF_USER/.ssh/authorized_keys
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
TEXT
}

# Pods are new hosts every time: what is known of a name says nothing, and there is no place to write it down.
write_client() {
  cat >"$ROOT/etc/ssh/ssh_config.d/gpt_mpi.conf" <<TEXT
Host *
  Port $PORT
  StrictHostKeyChecking no
  UserKnownHostsFile /dev/null
  LogLevel ERROR
TEXT
}

add_user
write_server
write_client
[ -n "$ROOT" ] || chown mpiuser: "$HOME_OF_USER/.sshd_config"
