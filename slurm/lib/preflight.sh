# shellcheck shell=bash
# What `gpt_mpi --preflight` says of the nodes (docs/preflight.md); its output is in the file PREFLIGHT_OUT.

PREFLIGHT=${PREFLIGHT:-yes}    # no: train without
PREFLIGHT_S=${PREFLIGHT_S:-180} # seconds after which it is ended: then the start itself shows what is wrong

wants_preflight() { [ "$PREFLIGHT" != no ]; }

# preflight_line: the last line for scripts; empty where there is none. srun --label puts the rank before it.
preflight_line() { sed -n 's/^\([0-9]*: *\)\?preflight: //p' "$PREFLIGHT_OUT" 2>/dev/null | tail -n 1; }

preflight_code() { preflight_line | sed -n 's/^{"exit_code":\([0-9]*\),.*/\1/p'; }

# preflight_exclude: the nodes to do without, one a line.
preflight_exclude() {
  preflight_line | sed -n 's/.*"exclude":\[\([^]]*\)\].*/\1/p' | tr -d '" ' | tr , '\n' | sed '/^$/d'
}
