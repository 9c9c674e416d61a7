# shellcheck shell=bash disable=SC2034  # what is set here the scripts read
# What differs between clusters. Needs TOP.

# load_site: reads slurm/env/$SITE.sh, or the file SITE when that has a slash. It may set MPI_TYPE, SRUN_OPTIONS, WRAPPER
# and export anything for the ranks.
load_site() {
  MPI_TYPE=${MPI_TYPE:-pmix}
  SRUN_OPTIONS=()
  WRAPPER=()
  [ -n "${SITE:-}" ] || return 0
  local file=$SITE
  [[ $SITE == */* ]] || file=$TOP/slurm/env/$SITE.sh
  [ -r "$file" ] || refuse "SITE=$SITE: there is no $file; there are: $(cd "$TOP/slurm/env" && echo *.sh)"
  # shellcheck source=slurm/env/template.sh
  . "$file"
}

# split_words TEXT: into the array WORDS, at blanks and line ends; nothing is expanded.
split_words() {
  WORDS=()
  read -r -d '' -a WORDS <<<"$1" || true
}

# take_option NAME DEFAULT: takes an option out of ARGUMENTS, and sets VALUE to its value.
take_option() {
  local rest=() count=${#ARGUMENTS[@]} place=0 word
  VALUE=$2
  while [ "$place" -lt "$count" ]; do
    word=${ARGUMENTS[place]}
    place=$((place + 1))
    case $word in
      "$1="*) VALUE=${word#*=} ;;
      "$1")
        VALUE=${ARGUMENTS[place]:-}
        place=$((place + 1))
        ;;
      *) rest+=("$word") ;;
    esac
  done
  ARGUMENTS=("${rest[@]}")
}

# --resume FILE and --resume none are for a run's beginning: at a later start they would train the same steps again. They
# are taken out of ARGUMENTS once the run folder has a checkpoint.
settle_resume() {
  take_option --resume auto
  if [ "$VALUE" = auto ]; then
    return
  elif [ "$(newest_step)" -gt 0 ]; then
    say "--resume $VALUE in ARGS was for the beginning: the run folder has a checkpoint, and the run goes on from it"
  else
    ARGUMENTS+=(--resume "$VALUE")
  fi
}

# GPUs that the job was granted on this node.
granted_gpus() { echo "${SLURM_GPUS_ON_NODE:-0}"; }

# device: for --device. GPUs that are granted and cannot be used are an error, so that they do not idle.
device() {
  if [ -n "${DEVICE:-}" ]; then
    echo "$DEVICE"
  elif [ "$(granted_gpus)" != 0 ]; then
    echo cuda
  else
    echo auto
  fi
}

# The demo's dataset is made where it is asked for and missing.
make_demo_data() {
  [ "$DATA" = "$TOP/datasets/demo" ] && [ ! -e "$DATA/dataset.h5" ] || return 0
  say "making the demo's dataset in $DATA"
  (cd "$TOP" && tools/demo_data.sh "$DATA") || refuse "the demo's dataset cannot be made: give another one as DATA"
}

check_program() {
  [ -x "$PROGRAM" ] || refuse "there is no program $PROGRAM: './run build' makes it, or name it as PROGRAM"
}
