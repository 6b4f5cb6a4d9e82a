"""Runs a Ring cluster of separate processes on this machine.

  tools/local-cluster N                    N ringd processes, until Ctrl-C
  tools/local-cluster N -- CMD...          runs CMD against them (RING_SEEDS, RING_ADMIN, and
                                           ringctl in PATH), stops them, returns CMD's status

From five nodes on the cluster has s=3 shards and d=2 redundant nodes a group, and the rest are
spares; with fewer, all nodes are active: 4: s=2 d=2, 3: s=2 d=1, 2: s=1 d=1, 1: s=1 d=0.
Configurations and logs are in a folder of their own, which goes away unless --dir names it.
--write-only writes the configuration there and starts nothing: for whoever runs the nodes himself.
"""

import argparse
import ctypes
import errno
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
READY_SECONDS_MAX = 60
STOP_SECONDS_MAX = 5
PR_SET_PDEATHSIG = 1


def shape(count):
    """(s, d) of a cluster of so many nodes."""
    return {1: (1, 0), 2: (1, 1), 3: (2, 1), 4: (2, 2)}.get(count, (3, 2))


def free_ports(count):
    """Ports of 127.0.0.1 that nobody listens on; held together, so that all differ. Below those
    that Linux gives out by itself: one of those may become the end of somebody's connection before
    its node listens there."""
    sockets = []
    try:
        while len(sockets) < count:
            sockets.append(socket.socket())
            try:
                sockets[-1].bind(("127.0.0.1", random.randrange(10_000, 32_768)))
            except OSError as error:
                sockets.pop().close()
                if error.errno != errno.EADDRINUSE:
                    raise
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


MEMGEST = re.compile(r"^REP([1-9])$|^SRS([2-9])([1-4])$")


def memgest_lines(names):
    """Tables of memgests by the names that the default ones have: REP3, SRS32."""
    lines = []
    for name in names:
        copies, data, parity = MEMGEST.match(name).groups()
        scheme = f"rep = {copies}" if copies else f"srs = [{data}, {parity}]"
        lines += ["", "[[memgests]]", f'name = "{name}"', scheme]
    return lines


def configuration(options, folder):
    """The text of the file that all nodes read."""
    s, d = shape(options.count)
    hosts = options.hosts or ["127.0.0.1"] * options.count
    cards = options.rdma_address * (options.count if len(options.rdma_address) == 1 else 1)
    ports = free_ports((3 if cards else 2) * options.count)
    lines = ["[cluster]", f'name = "{folder.name}"', f"s = {s}", f"d = {d}"]
    lines += [f'fail_over = "{"on" if options.fail_over else "off"}"', f'fence = "{options.fence}"']
    if options.detect_ms:  # the others in the proportion of the defaults: 25 and 100 of 150
        lines += [f"detect_ms = {options.detect_ms}",
                  f"heartbeat_ms = {min(1000, max(1, options.detect_ms // 6))}",
                  f"lease_ms = {max(5, options.detect_ms * 2 // 3)}"]
    lines += ["", "[node]", f'transport = "{options.transport}"', 'ring_size = "256KiB"',
              'log_level = "warning"']
    if options.fault_injection:
        lines.append('fault_injection = "on"')
    if options.durable:
        lines.append(f'data_dir = "{folder}/voters"')
    for i in range(options.count):
        lines += ["", "[[nodes]]", f'name = "n{i}"', 'host = "local"',
                  f'data = "{hosts[i]}:{ports[2 * i]}"',
                  f'admin = "{hosts[i]}:{ports[2 * i + 1]}"']
        if cards:
            lines.append(f'rdma = "{cards[i]}:{ports[2 * options.count + i]}"')
        if options.transport in ("auto", "shm"):
            lines.append(f'shm = "{folder}/n{i}.sock"')
    return "\n".join(lines + memgest_lines(options.memgests)) + "\n"


def write_configuration(options, folder):
    path = folder / "ring.toml"
    path.write_text(configuration(options, folder))
    if options.durable:
        (folder / "voters").mkdir(exist_ok=True)
    return path


def build_folder():
    return Path(os.environ.get("RING_BUILD", ROOT / "build" / "release"))


def ringd_program():
    program = build_folder() / "tools" / "ringd" / "ringd"
    if program.exists():
        return str(program)
    found = shutil.which("ringd")
    if not found:
        sys.exit(f"tools/local-cluster: there is no {program}: run tools/run once")
    return found


_LIBC = ctypes.CDLL(None)


def die_with_parent(parent=os.getpid()):
    """In the child: the kernel stops it should this script be killed. Ctrl-C is not for it."""
    os.setsid()
    _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it was killed before the line above
        os._exit(127)


class Cluster:
    def __init__(self, options, folder):
        self.folder = folder
        self.processes = []
        self.may_be_killed = options.fault_injection  # by ringctl fault kill
        path = write_configuration(options, folder)
        for i in range(options.count):
            with open(folder / f"n{i}.log", "wb") as log, \
                    open(folder / f"n{i}.out", "wb") as out:
                self.processes.append(subprocess.Popen(
                    [ringd_program(), "--config", str(path), "--node", f"n{i}"],
                    stdin=subprocess.DEVNULL, stdout=out, stderr=log, preexec_fn=die_with_parent))

    def ready_line(self):
        """Waits until all serve; gives the seeds and the admin addresses of all nodes."""
        seeds, admin = [], []
        deadline = time.monotonic() + READY_SECONDS_MAX
        for i, process in enumerate(self.processes):
            while True:
                line = (self.folder / f"n{i}.out").read_text()
                if line.startswith("ready:") and line.endswith("\n"):
                    break
                if process.poll() is not None or time.monotonic() > deadline:
                    log = (self.folder / f"n{i}.log").read_text()
                    raise RuntimeError(f"node n{i} did not get ready:\n{log}")
                time.sleep(0.01)
            fields = dict(word.split("=", 1) for word in line.splitlines()[0].split()[1:])
            seeds.append(fields["seeds"])
            admin.append(fields["admin"])
        return ",".join(seeds), ",".join(admin)

    def stop(self):
        """Stops all; gives whether each ended by itself, with status 0, or was killed as asked."""
        for process in self.processes:
            if process.poll() is None:
                process.terminate()
        deadline = time.monotonic() + STOP_SECONDS_MAX
        clean = True
        for i, process in enumerate(self.processes):
            # One that was killed may be on its way out still.
            as_asked = self.may_be_killed
            try:
                status = process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                as_asked = False
                process.kill()
                status = process.wait()
            if status == -signal.SIGKILL and as_asked:
                print(f"tools/local-cluster: node n{i} was killed, as asked", file=sys.stderr)
            elif status != 0:
                clean = False
                print(f"tools/local-cluster: node n{i} ended with status {status}",
                      file=sys.stderr)
        return clean


def run_command(command, seeds, admin, timeout=None):
    build = build_folder()
    path = f"{build / 'tools' / 'ringctl'}:{build / 'tools' / 'ring-bench'}:{os.environ['PATH']}"
    environment = {**os.environ, "RING_SEEDS": seeds, "RING_ADMIN": admin, "PATH": path}
    try:
        status = subprocess.run(command, env=environment, check=False, timeout=timeout).returncode
    except OSError as error:
        print(f"tools/local-cluster: {command[0]}: {error.strerror}", file=sys.stderr)
        return 127
    return status if status >= 0 else 128 - status


def stopped(signal_number, _frame):
    raise SystemExit(128 + signal_number)


def parse(arguments):
    command = None
    if "--" in arguments:
        at = arguments.index("--")
        arguments, command = arguments[:at], arguments[at + 1:]
    parser = argparse.ArgumentParser(prog="tools/local-cluster", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", metavar="N", type=int, help="nodes, 1 to 64")
    parser.add_argument("--transport", choices=("auto", "rdma", "shm", "tcp"), default="auto",
                        help="between the nodes (default: auto, shared memory here)")
    parser.add_argument("--rdma-address", type=lambda text: text.split(","), default=[],
                        metavar="HOST[,HOST...]", help="of an RDMA device here; one for all nodes, "
                        "or one for each")
    parser.add_argument("--dir", type=Path, help="keep configurations and logs in this folder")
    parser.add_argument("--no-fail-over", dest="fail_over", action="store_false",
                        help="a node that is lost keeps its roles")
    parser.add_argument("--fence", choices=("lease", "check"), default="lease",
                        help="how a coordinator knows that its roles are still its own")
    parser.add_argument("--detect-ms", type=int, help="a node so long silent is lost, 5 to 60000; "
                                                      "heartbeats and leases follow it")
    parser.add_argument("--fault-injection", action="store_true",
                        help="ringctl fault may make nodes fail")
    parser.add_argument("--durable", action="store_true",
                        help="voters keep what they decided, in the folder")
    parser.add_argument("--memgests", type=lambda text: text.split(","), default=[],
                        help="such as REP1,REP3,SRS32 (default: the seven)")
    parser.add_argument("--hosts", type=lambda text: text.split(","), default=[],
                        help="an address for each node (default: 127.0.0.1)")
    parser.add_argument("--write-only", action="store_true",
                        help="write ring.toml into --dir, start nothing")
    options = parser.parse_args(arguments)
    if not 1 <= options.count <= 64:
        parser.error("N must be 1 to 64")
    if options.hosts and len(options.hosts) != options.count:
        parser.error("--hosts needs N addresses")
    if len(options.rdma_address) not in (0, 1, options.count):
        parser.error("--rdma-address needs one address, or N")
    if options.transport == "rdma" and not options.rdma_address:
        parser.error("--transport rdma needs --rdma-address: ringctl doctor lists devices")
    if not all(MEMGEST.match(name) for name in options.memgests):
        parser.error("--memgests knows REP1 to REP9 and SRS21 to SRS94")
    if options.write_only and not options.dir:
        parser.error("--write-only needs --dir")
    if command == []:
        parser.error("-- needs a command")
    return options, command


def main():
    options, command = parse(sys.argv[1:])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stopped)
    s, d = shape(options.count)
    print(f"{options.count} nodes: s={s} d={d} spares={options.count - s - d} "
          f"transport={options.transport}", file=sys.stderr)
    if options.dir:
        options.dir.mkdir(parents=True, exist_ok=True)
        folder = options.dir.resolve()
    else:
        folder = Path(tempfile.mkdtemp(prefix="ring-cluster-"))
    if options.write_only:
        print(write_configuration(options, folder))
        return 0
    cluster = None
    status = 0
    try:
        cluster = Cluster(options, folder)
        seeds, admin = cluster.ready_line()
        print(f"ready: seeds={seeds} admin={admin}", flush=True)
        if command:
            status = run_command(command, seeds, admin)
        else:
            signal.pause()
    except RuntimeError as error:
        print(f"tools/local-cluster: {error}", file=sys.stderr)
        status = 1
    except SystemExit as stop:
        status = stop.code if command else 0
    finally:
        if cluster and not cluster.stop():
            status = status or 1
        if not options.dir:
            shutil.rmtree(folder, ignore_errors=True)
    return status
