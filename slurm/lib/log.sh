# shellcheck shell=bash
# What the files of a run folder say: log.jsonl of the program, slurm.log of the job scripts.

# last_line EVENT FOLDER: of log.jsonl. Its lines begin with the event.
last_line() { tac "$2/log.jsonl" 2>/dev/null | grep -m 1 "^{\"event\":\"$1\"," || true; }

# last_of EVENT FIELD FOLDER: a number of the last such line; "-" if there is none.
last_of() {
  local value
  value=$(last_line "$1" "$3" | sed -n "s/.*[,{]\"$2\":\([-+.0-9eE]*\)[,}].*/\1/p")
  echo "${value:--}"
}

# last_state FOLDER: what its last job script said.
last_state() {
  local line
  line=$(tail -n 1 "$1/slurm.log" 2>/dev/null || true)
  case $line in
    *' end '*kind=finished*) echo finished ;;
    *' start '*) echo running ;;
    *' requeue '*) echo requeued ;;
    *' give_up '*) echo "failed: ${line#*reason=}" ;;
    *' end '*) echo "ended: ${line#*kind=}" ;;
    '') echo unknown ;;
    *) echo running ;;
  esac
}
