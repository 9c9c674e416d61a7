# shellcheck shell=bash
# The global batch of a run whose nodes come and go.

# resized_batch BATCH SHARDS NODES FULL RANKS: BATCH is meant for FULL nodes; with fewer, as much less, down to a multiple
# of SHARDS. BATCH itself where there is no such multiple, or it would be less than a sequence for each of RANKS ranks.
resized_batch() {
  local batch=$(($1 * $3 / $4 / $2 * $2))
  if [ "$batch" -lt "$2" ] || [ "$batch" -lt "$5" ]; then batch=$1; fi
  echo "$batch"
}

# shards_of FOLDER: training shards of a dataset.
shards_of() { find "$1" -maxdepth 1 -name 'train-*.h5' | wc -l; }
