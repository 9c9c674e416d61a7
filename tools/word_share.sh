#!/usr/bin/env bash
# word_share.sh CORPUS SAMPLE: how many of the sample's words stand in the corpus. A word is a run of letters, case
# aside; the last one does not count, the sample may have ended inside it.
set -euo pipefail
CORPUS=${1:?"usage: word_share.sh CORPUS SAMPLE"}
SAMPLE=${2:?"usage: word_share.sh CORPUS SAMPLE"}

words() { LC_ALL=C tr -cs 'A-Za-z' '\n' <"$1" | LC_ALL=C tr '[:upper:]' '[:lower:]' | sed '/^$/d'; }

awk 'NR == FNR { known[$0] = 1; next } { all++; if ($0 in known) found++ }
  END { printf "%d of %d words of the sample (%.1f %%) stand in the corpus.\n", found, all, all ? 100 * found / all : 0 }' \
  <(words "$CORPUS") <(words "$SAMPLE" | sed '$d')
