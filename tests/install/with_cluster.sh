#!/bin/bash
# Runs a program with RING_SEEDS of a cluster that RINGD serves for so long; gives its status.
#   with_cluster.sh RINGD PROGRAM...
set -euo pipefail
ringd=$1
shift
# Should this shell be killed, the kernel ends the cluster; was it killed before the kernel knew,
# the cluster has another parent and does not begin.
exec {ready}< <(exec setpriv --pdeathsig TERM \
  sh -c '[ "$PPID" = "$0" ] || exit 127; exec "$@"' $$ "$ringd" --embedded)
pid=$!
trap 'kill -TERM "$pid" 2>/dev/null || true; wait "$pid" 2>/dev/null || true' EXIT
read -r line <&"$ready"
[[ $line == "ready: seeds="* ]] || { echo "the cluster did not start: $line" >&2; exit 1; }
line=${line#ready: seeds=}
RING_SEEDS=${line%% *} "$@"
