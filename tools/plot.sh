#!/usr/bin/env bash
# plot.sh RUN: losses of a run folder's log.jsonl, as RUN/loss.svg and on the terminal.
set -euo pipefail
if [ $# -ne 1 ]; then
  echo "usage: ./run plot RUN, with a run folder such as runs/demo" >&2
  exit 2
fi
RUN=$1
WIDTH=${WIDTH:-${COLUMNS:-79}}

LOG=$RUN/log.jsonl
if [ ! -s "$LOG" ]; then
  echo "plot: $LOG is missing or empty: is $RUN a run folder that has begun to train?" >&2
  exit 2
fi
if ! command -v gnuplot >/dev/null; then
  echo "plot: gnuplot is missing: ./run setup installs it" >&2
  exit 2
fi
POINTS=$(mktemp -d)
trap 'rm -rf "$POINTS"' EXIT

# points EVENT KEY: "step value" by step. After a restart a step may stand in the log twice: the last line wins.
points() {
  awk -v event="\"event\":\"$1\"" -v key="\"$2\":" '
    function number(name,  at) {
      at = index($0, name)
      return at ? substr($0, at + length(name)) + 0 : "none"
    }
    { gsub(/[ \t]/, "") }
    index($0, "\"event\":\"start\"") || index($0, "\"event\":\"rollback\"") {
      begin = number("\"step\":")
      for (step in value) if (step + 0 > begin + 0) delete value[step]
    }
    index($0, event) && index($0, key) && !index($0, key "null") { value[number("\"step\":")] = number(key) }
    END { for (step in value) print step, value[step] }' "$LOG" | sort -n
}

points step loss >"$POINTS/train"
points eval val_loss >"$POINTS/val"
if [ ! -s "$POINTS/train" ]; then
  echo "plot: $LOG holds no training step yet" >&2
  exit 2
fi

curves="'$POINTS/train' with lines linewidth 1 linecolor rgb '#7090c0' title 'training batch'"
dumb_curves="'$POINTS/train' with dots title 'training batch'"
if [ -s "$POINTS/val" ]; then
  curves+=", '$POINTS/val' with linespoints linewidth 2 pointtype 7 pointsize 0.5 linecolor rgb '#c03030' title 'validation'"
  dumb_curves+=", '$POINTS/val' with points pointtype 1 title 'validation'"
fi

gnuplot <<COMMANDS
set xlabel 'step'
set ylabel 'loss (nats per token)'
set key top right
set terminal svg size 860,480 font 'sans-serif,13' background rgb 'white'
set output '$POINTS/loss.svg'
set grid linecolor rgb '#dddddd'
plot $curves
unset grid
set terminal dumb size $WIDTH,24
set output
plot $dumb_curves
COMMANDS
mv "$POINTS/loss.svg" "$RUN/loss.svg"
echo "The same plot as a picture: $RUN/loss.svg"
