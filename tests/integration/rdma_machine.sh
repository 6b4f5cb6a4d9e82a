# Sourced by tests of clusters of processes whose nodes talk by RDMA alone, in the virtual machine
# of tools/verbs-vm. VERBS_VM_DEVICES: rxe: all nodes at one device; rxe2: every other one at the
# second, with packets that cross. Outside of the machine are Python and the build, inside neither.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
machine_source=${BASH_SOURCE[0]}
folder=${RING_CLUSTER_FOLDER:-}

# write_cluster COUNT OPTION...: tools/local-cluster's configuration in $folder; without one, in a
# folder that goes away with the script.
write_cluster() {
  local count=$1 i addresses=
  shift
  if [[ -z $folder ]]; then
    folder=$(mktemp -d)
    trap "rm -rf '$folder'" EXIT
  fi
  for ((i = 0; i < count; ++i)); do
    if [[ ${VERBS_VM_DEVICES:-rxe} == rxe2 ]]; then
      addresses+=,10.77.0.$((1 + i % 2))
    else
      addresses+=,10.77.0.1
    fi
  done
  "$root/tools/local-cluster" "$count" --transport rdma --rdma-address "${addresses#,}" \
    --memgests REP1,REP3,SRS32 --dir "$folder" --write-only "$@" >/dev/null
  sed -i 's/^\[node\]$/[node]\narena_size_max = "512MiB"\nclient_max = 16\npoll = "sleep"/
    s/^log_level = .*/log_level = "info"/' "$folder/ring.toml"
}

# This script with "inside" in a machine that has the configuration and these programs of the build.
run_inside() {
  local build=${RING_BUILD:-$root/build/release} program
  export RING_CLUSTER_FOLDER=$folder RING_CLUSTER_BUILD=$build
  # All that nodes and clients allocate is locked.
  export VERBS_VM_MEMORY=${VERBS_VM_MEMORY:-6144M} VERBS_VM_TIMEOUT=${VERBS_VM_TIMEOUT:-900}
  export VERBS_VM_FILES=$folder:$machine_source
  for program in "$@"; do VERBS_VM_FILES+=:$build/$program; done
  "$root/tools/verbs-vm" "$0" inside
}

# --- inside ---
build=${RING_CLUSTER_BUILD:-}
ringctl=$build/tools/ringctl/ringctl
pids=()

# What is known of the cluster and its devices when something does not come about.
describe() {
  local admins
  admins=$(sed -n 's/^admin = "\(.*\)"/\1/p' "$folder/ring.toml" | paste -s -d , -)
  tail -n 60 "$folder"/n*.log
  "$ringctl" cluster --admin "$admins" --timeout 20 || true
  "$ringctl" health --admin "$admins" --timeout 20 || true
  # Queue pairs by device, type and state (type GSI is the connection manager's), and connections.
  rdma res show qp | sed -n 's/^link \([^ ]*\) .*\(type [A-Z]*\) state \([A-Z0-9]*\).*/\1 \2 \3/p' |
    sort | uniq -c
  rdma res show cm_id | sed -n 's/.*\(state [A-Z_]*\).*/\1/p' | sort | uniq -c
  rdma statistic show || true
  dmesg | grep -E 'Out of memory|infiniband|rxe|mad' | tail -n 20 || true
}

fail() {
  echo "failed: $*"
  describe
  exit 1
}

# start_node I [COMMAND...]: behind a command such as a limit.
start_node() {
  local i=$1
  shift
  "$@" "$build/tools/ringd/ringd" --config "$folder/ring.toml" --node "n$i" \
    >"$folder/n$i.out" 2>>"$folder/n$i.log" </dev/null &
  pids[i]=$!
}

# Until so many nodes have said where they serve; the addresses are RING_SEEDS and, of the first
# one's admin service, RING_ADMIN then.
wait_ready() {
  local i line seeds=
  for ((i = 0; i < $1; ++i)); do
    until line=$(grep '^ready: ' "$folder/n$i.out"); do
      kill -0 "${pids[i]}" 2>/dev/null || fail "node n$i ended"
      sleep 0.2
    done
    line=${line#ready: seeds=}
    seeds+=${seeds:+,}${line%% admin=*}
    if [[ $i == 0 ]]; then RING_ADMIN=${line##* admin=}; fi
  done
  export RING_SEEDS=$seeds RING_ADMIN
}

# All memgests hold all copies that they promise; that a node is lost or no spare is left may be.
wait_protected() {
  local i
  for ((i = 0; i < 120; ++i)); do
    "$ringctl" health --json --timeout 20 >"$folder/health" 2>&1 || true
    if grep -q '"shards_not_serving":\[\]' "$folder/health" &&
      ! grep -oE '"condition":"[a-z]+"' "$folder/health" | grep -qv '"protected"'; then
      return
    fi
    sleep 1
  done
  cat "$folder/health"
  fail "the cluster is not protected"
}

stop_nodes() {
  local pid
  kill "${pids[@]}" 2>/dev/null || true
  for pid in "${pids[@]}"; do wait "$pid" || true; done
}
