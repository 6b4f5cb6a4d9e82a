"""A cluster of ringd processes on this machine, and a command that is run against it. What a
program starts here ends with it, even if it is killed."""

import contextlib
import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import local_cluster_file as cluster_file

ROOT = Path(__file__).resolve().parents[1]
READY_SECONDS_MAX = 60
STOP_SECONDS_MAX = 20  # what is not held up ends within one
LOOK_SECONDS = 0.01    # between two looks at what no event tells of
HEALTH_SECONDS = 0.25  # between two questions to all nodes
PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)


def build_folder():
    return Path(os.environ.get("RING_BUILD", ROOT / "build" / "release"))


def say(what):
    """On stderr, by the name of the tool that runs."""
    print(f"tools/{Path(sys.argv[0]).name}: {what}", file=sys.stderr)


def program_of(name):
    """ringd or ringctl: of the build, else what is installed."""
    built = build_folder() / "tools" / name / name
    found = str(built) if built.exists() else shutil.which(name)
    if not found:
        raise RuntimeError(f"there is no {built}: run tools/run once")
    return found


def die_with_parent(parent=os.getpid()):
    """In the child: the kernel stops it should this script be killed. Ctrl-C is not for it."""
    os.setsid()
    _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it was killed before the line above
        os._exit(127)


ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def end_on_signals():
    """SystemExit for what ends a program, so that it can clean up; a second one is no news then."""
    def stopped(number, _frame):
        for each in ENDING:
            signal.signal(each, signal.SIG_IGN)
        raise SystemExit(128 + number)

    for number in ENDING:
        signal.signal(number, stopped)


def take_signals():
    """Those that came while they were put off, too."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)


def begin_anew():
    """In the child: what ends a program ends it, as if nobody had handled or put off anything."""
    for number in ENDING:
        signal.signal(number, signal.SIG_DFL)
    take_signals()


@contextlib.contextmanager
def folder_of(kept, prefix):
    """The folder to keep, made if need be; without one, one that goes away."""
    if kept:
        kept.mkdir(parents=True, exist_ok=True)
        yield kept.resolve()
    else:
        with tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as folder:
            yield Path(folder)


class Cluster:
    """The processes of a cluster whose file, logs and sockets are in a folder."""

    def __init__(self, settings, folder):
        """Writes the file; one that is there is taken as it is, if it agrees. Starts nothing."""
        self.folder = folder
        self.path = folder / cluster_file.NAME
        self.known = self.path.exists()
        if not self.known:
            cluster_file.write(settings, folder)
        self.file = cluster_file.read(self.path)
        if self.known:
            cluster_file.agree(settings, self.path, self.file)
        self.count = len(self.file["nodes"])
        self.processes = []

    def describe(self):
        s, d = self.file["cluster"].get("s", 3), self.file["cluster"].get("d", 2)
        said = (f"{self.count} nodes: s={s} d={d} spares={self.count - s - d} "
                f"transport={self.file['node'].get('transport', 'auto')}")
        return f"{said}, again as in {self.path}" if self.known else said

    def start(self):
        for i in range(self.count):
            with open(self.folder / f"n{i}.log", "wb") as log, \
                    open(self.folder / f"n{i}.out", "wb") as out:
                self.processes.append(subprocess.Popen(
                    [program_of("ringd"), "--config", str(self.path), "--node", f"n{i}"],
                    stdin=subprocess.DEVNULL, stdout=out, stderr=log, preexec_fn=die_with_parent))

    def _said(self, i):
        """The addresses that node i says in its line; None: it does not serve yet."""
        line, end, _ = (self.folder / f"n{i}.out").read_text().partition("\n")
        if not end or not line.startswith("ready:"):
            return None
        return dict(word.split("=", 1) for word in line.split()[1:])

    def _waiting(self):
        return {i for i in range(self.count) if not self._said(i)}

    def addresses(self):
        """The seeds and the admin addresses of all nodes, of those that do not serve as the file
        has them."""
        said = [self._said(i) or {"seeds": node.get("data", ""), "admin": node.get("admin", "")}
                for i, node in enumerate(self.file["nodes"])]
        return tuple(",".join(one[key] for one in said) for key in ("seeds", "admin"))

    def come_up(self):
        """Waits until all nodes serve; gives 0 then, or, of a cluster whose voters remember another
        start, how many shards are stopped until somebody accepts the loss (E8)."""
        deadline = time.monotonic() + READY_SECONDS_MAX
        ask_at = time.monotonic() + HEALTH_SECONDS
        remembers = self.known and "data_dir" in self.file["node"]
        while waiting := self._waiting():
            now = time.monotonic()
            ended = {i for i in waiting if self.processes[i].poll() is not None}
            if ended or now > deadline:
                i = min(ended or waiting)
                log = (self.folder / f"n{i}.log").read_text()
                raise RuntimeError(f"node n{i} did not get ready" +
                                   (f":\n{log}" if log else "; it logged nothing"))
            if remembers and now >= ask_at:
                if stopped := self._stopped_shards():
                    return stopped
                ask_at = time.monotonic() + HEALTH_SECONDS
            time.sleep(LOOK_SECONDS)
        return 0

    def wait_serving(self):
        """However long that takes."""
        while self._waiting():
            time.sleep(HEALTH_SECONDS)

    def _stopped_shards(self):
        """How many there are, if they alone are what keeps nodes from serving; else 0."""
        asked = subprocess.run(
            [program_of("ringctl"), "health", "--json", "--timeout", "5",
             "--admin", self.addresses()[1]],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        try:
            shards = json.loads(asked.stdout)["shards_not_serving"]
        except (ValueError, KeyError):  # nobody answers yet
            return 0
        coordinators = {shard["coordinator"] for shard in shards}
        if self._waiting() <= coordinators and all(shard["stopped"] for shard in shards):
            return len(shards)
        return 0

    def stop(self):
        """Stops all; gives whether each ended by itself, with status 0, or was killed as asked."""
        for process in self.processes:
            if process.poll() is None:
                process.terminate()
        deadline = time.monotonic() + STOP_SECONDS_MAX
        clean = True
        for i, process in enumerate(self.processes):
            # One that was killed, by ringctl fault kill, may be on its way out still.
            as_asked = self.file["node"].get("fault_injection") == "on"
            try:
                status = process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                as_asked = False
                process.kill()
                status = process.wait()
            if status == -signal.SIGKILL and as_asked:
                say(f"node n{i} was killed, as asked")
            elif status != 0:
                clean = False
                say(f"node n{i} ended with status {status}")
        return clean


def run_command(command, seeds, admin, timeout=None, reads=True):
    """Runs a command with the addresses in its environment, and ringctl in PATH; gives its status.
    If a signal or the time-out ends the wait, the command ends, too, with all that it started; but
    at a terminal what it started does so only by what is typed there, unless it `reads` nothing."""
    build = build_folder()
    path = f"{build / 'tools' / 'ringctl'}:{build / 'tools' / 'ring-bench'}:{os.environ['PATH']}"
    environment = {**os.environ, "RING_SEEDS": seeds, "RING_ADMIN": admin, "PATH": path}
    # From a terminal only the group in its foreground, which is this script's, may read. What is
    # typed there to end the command reaches all of the group in any case.
    group = None if reads and sys.stdin and sys.stdin.isatty() else 0
    # Put off until it is known whom to end.
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        process = subprocess.Popen(command, env=environment, process_group=group,
                                   stdin=None if reads else subprocess.DEVNULL,
                                   preexec_fn=begin_anew)
    except OSError as error:
        take_signals()
        say(f"{command[0]}: {error.strerror}")
        return 127
    try:
        take_signals()
        status = process.wait(timeout)
    except BaseException:
        _end(process, group is not None)
        raise
    return status if status >= 0 else 128 - status


def _end(process, is_group):
    """TERM for a process, or for its group; KILL for what does not end of it."""
    def send(number):
        """False: there is nobody any more."""
        try:
            if is_group:
                os.killpg(process.pid, number)
            else:
                process.send_signal(number)
        except ProcessLookupError:
            return False
        except PermissionError:  # another user's, as with sudo
            pass
        return process.poll() is None or is_group

    try:
        send(signal.SIGTERM)
        deadline = time.monotonic() + STOP_SECONDS_MAX
        while send(0) and time.monotonic() < deadline:
            time.sleep(LOOK_SECONDS)
    finally:  # a signal may come meanwhile
        send(signal.SIGKILL)
        process.wait()
