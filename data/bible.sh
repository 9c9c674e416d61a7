#!/usr/bin/env bash
# bible.sh: prints the King James Bible, as Debian's package bible-kjv has it: one verse a line, each with its
# reference in front ("Ge1:1 In the beginning …"), 31102 lines, 4.4 MB of ASCII. Nothing is taken away or added.
set -euo pipefail

VERSES=${VERSES:-gen1:1-rev22:21}

if ! command -v bible >/dev/null; then
  echo "bible.sh: the program 'bible' is missing: apt-get install bible-kjv" >&2
  exit 1
fi
exec bible -f "$VERSES"
