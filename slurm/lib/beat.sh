# shellcheck shell=bash disable=SC2153  # BEATS and BEAT are two
# Signs of life between the job script and the nodes, as files in a folder that all of them see: the script counts up in
# `script`, guard.sh on every node in a file of the node's name. Who watches looks for a change by its own clock, so that
# clocks may differ. Needs BEATS, the folder.

BEAT_S=${BEAT_S:-1}        # seconds between two beats
SILENCE_S=${SILENCE_S:-5}  # seconds without one after which a node is asked whether it is there

declare -A beat_seen=() beat_at=()
beat_number=0

# beat FILE [WORD]: one sign of life; WORD stands before the number.
beat() {
  beat_number=$((beat_number + 1))
  printf '%s\n' "${2:+$2 }$beat_number" >"$BEATS/$1" || true
}

# expect_beat FILE: it counts as heard of from now on.
expect_beat() {
  beat_seen[$1]=''
  beat_at[$1]=$SECONDS
}

# listen FILE: reads the beat into BEAT, and notes when it was another one.
listen() {
  BEAT=''
  { read -r BEAT <"$BEATS/$1"; } 2>/dev/null || true # empty while it is being written
  if [ -n "$BEAT" ] && [ "$BEAT" != "${beat_seen[$1]}" ]; then
    beat_seen[$1]=$BEAT
    beat_at[$1]=$SECONDS
  fi
}

# silence_of FILE: seconds since its last beat that `listen` has noted.
silence_of() { echo $((SECONDS - ${beat_at[$1]})); }
