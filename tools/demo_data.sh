#!/usr/bin/env bash
# demo_data.sh FOLDER: makes the demo's dataset there, of the King James Bible where that is installed, else of a
# synthetic text. Leaves one that is there alone.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if [ $# -ne 1 ]; then
  echo "usage: tools/demo_data.sh FOLDER" >&2
  exit 2
fi
mkdir -p "$(dirname "$1")"
# One after the other, since jobs start at the same time; and under another name until it is whole.
exec 9>"$1.lock"
flock 9 || echo "demo_data.sh: this file system has no locks" >&2
if [ -e "$1/dataset.h5" ]; then
  echo "$1 is there already."
  exit 0
fi
new=$1.new-$(hostname)-$$
trap 'rm -rf "$new" "$new.txt"' EXIT
mkdir -p "$new"
if data/bible.sh >"$new.txt"; then
  ./gpt_data pack --input "$new.txt" --out "$new" --tokenizer chars --shards 32
  mv "$new.txt" "$1.txt"
else
  ./gpt_data synth --out "$new" --tokens 4000000 --shards 32 --seed 1
fi
mkdir -p "$1"
rmdir "$1" || { echo "demo_data.sh: $1 is not empty and has no dataset: move it away" >&2; exit 1; }
mv -T "$new" "$1"
