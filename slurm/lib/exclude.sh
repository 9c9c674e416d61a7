# shellcheck shell=bash
# Nodes that a job does without for BLAME_S seconds: a rank hung there, or they failed the preflight. They stand in
# slurm.log, so that the job's next start knows of them. Needs RUN; goes with job.sh.

# What sbatch's --exclude said, noted at the job's first start, since `requeue` changes it.
note_exclusions() {
  local given
  ! grep -qs "^[^ ]* submitted job=$SLURM_JOB_ID " "$RUN/slurm.log" || return 0
  given=$(job_setting ExcNodeList) || return 0
  record submitted "exclude=${given/#(null)/}"
}

# exclude_nodes REASON NODE…
exclude_nodes() {
  local node
  for node in "${@:2}"; do say "$node is left out for $BLAME_S s: $1"; done
  record exclude "nodes=$(IFS=,; echo "${*:2}") until=$(($(date +%s) + BLAME_S)) reason=$1"
}

# forgive_nodes REASON: none is left out any more.
forgive_nodes() {
  say "no node is left out any more: $1"
  record forgive "reason=$1"
}

# excluded_nodes: those of this job, one a line.
excluded_nodes() {
  awk -v job="job=$SLURM_JOB_ID" -v now="$(date +%s)" '
    $3 != job { next }
    $2 == "forgive" { delete until }
    $2 == "exclude" {
      split(substr($5, length("nodes=") + 1), names, ",")
      for (i in names) until[names[i]] = substr($6, length("until=") + 1)
    }
    END { for (name in until) if (until[name] + 0 > now) print name }' "$RUN/slurm.log" 2>/dev/null | sort
}

# other_nodes: how many nodes of the partition work and are not left out; false if Slurm does not answer.
other_nodes() {
  local all given
  all=$(query sinfo -h -N -p "$SLURM_JOB_PARTITION" -o '%N %t') || return 1
  given=$(submitted_exclusions)
  [ -z "$given" ] || given=$(scontrol show hostnames "$given" 2>/dev/null || true)
  # shellcheck disable=SC2046,SC2086  # one word a node
  without $(excluded_nodes) $given -- \
    $(awk '$2 !~ /^(down|drain|drng|fail|maint|unk)/ { print $1 }' <<<"$all") | wc -l
}

submitted_exclusions() {
  sed -n "s/^[^ ]* submitted job=$SLURM_JOB_ID restart=[0-9]* exclude=//p" "$RUN/slurm.log" 2>/dev/null | head -n 1 ||
    true
}

# Tells Slurm which nodes the next start of this job shall not get: those of --exclude, and those left out. It lists
# them for jobs that wait only. Nothing where this script has never left out a node.
update_exclusions() {
  local list node
  grep -qs "^[^ ]* exclude job=$SLURM_JOB_ID " "$RUN/slurm.log" || return 0
  list=$(submitted_exclusions)
  for node in $(excluded_nodes); do list+=${list:+,}$node; done
  query scontrol update JobId="$JOB" ExcNodeList="$list" || say "Slurm does not take the nodes to leave out: $list"
}
