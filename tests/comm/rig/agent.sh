#!/bin/sh
# agent.sh HOST COMMAND…: what ssh would be to Open MPI. The command, words for a shell to read, runs on a test host;
# GPT_TEST_HOSTS says which process keeps each host's namespaces (hosts.py): "host0-71=5 host1-71=9".
set -eu
host=$1
shift
for entry in $GPT_TEST_HOSTS; do
  [ "${entry%%=*}" != "$host" ] || exec nsenter --target "${entry#*=}" --net --uts --mount --pid -- sh -c "$*"
done
echo "agent.sh: no test host is called $host; there are: $GPT_TEST_HOSTS" >&2
exit 1
