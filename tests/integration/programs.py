"""What the integration tests share: the programs of a build, and no process left behind."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import tempfile
import termios
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import local_cluster_file  # noqa: E402

BUILD = Path(os.environ.get("RING_BUILD", ROOT / "build" / "dev"))
READY_SECONDS_MAX = 60

READY = re.compile(r"^ready: seeds=(\S+) admin=(\S+)$")


def program(name, folder=None):
    return str(BUILD / "tools" / (folder or name) / name)


def environment(**more):
    tools = f"{BUILD / 'tools' / 'ringctl'}:{os.environ['PATH']}"
    clean = {k: v for k, v in os.environ.items() if k not in ("RING_SEEDS", "RING_ADMIN")}
    return {**clean, "PATH": tools, "RING_BUILD": str(BUILD), **more}


def processes_of(marker):
    """Ids of the processes whose environment holds the marker: all that a test started."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if marker.encode() in (entry / "environ").read_bytes():
                # A process that ended and was not waited for yet has no environment.
                found.append(int(entry.name))
        except OSError:
            pass
    return found


def wait_until(condition, seconds):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def free_port():
    return local_cluster_file.free_ports(1)[0]


class Terminal:
    """A program at a terminal of its own: what is typed, and what it shows."""

    def __init__(self, *argv, env):
        self.keyboard, screen = pty.openpty()
        try:
            self.process = subprocess.Popen([str(a) for a in argv], stdin=screen, stdout=screen,
                                            stderr=screen, env=env, preexec_fn=self._take)
        finally:
            os.close(screen)

    @staticmethod
    def _take():
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    def type(self, text):
        os.write(self.keyboard, text)

    def wait_shown(self, text, seconds=READY_SECONDS_MAX):
        """False: it did not show the text until then, or until it ended."""
        shown = b""
        deadline = time.monotonic() + seconds
        while text not in shown and time.monotonic() < deadline:
            if select.select([self.keyboard], [], [], 0.1)[0]:
                try:
                    shown += os.read(self.keyboard, 65536)
                except OSError:  # nobody is there any more
                    break
        return text in shown

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.keyboard)


class Programs(unittest.TestCase):
    """Starts programs with a marker in their environment; at the end none may be left."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="ring-integration-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.marker = f"RING_TEST_MARKER={self.folder.name}"
        self.environment = environment(RING_TEST_MARKER=self.folder.name, TMPDIR=str(self.folder))
        self.addCleanup(self.end_what_is_left)

    def end_what_is_left(self):
        # A script that was killed takes its processes with it, by the kernel: a moment later.
        wait_until(lambda: not processes_of(self.marker), 10)
        left = processes_of(self.marker)
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        self.assertEqual(left, [], "processes were left behind")

    def start(self, *argv, **more):
        process = subprocess.Popen([str(a) for a in argv], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, env=self.environment, bufsize=0,
                                   **more)
        self.addCleanup(self.finish, process)
        return process

    def start_at_terminal(self, *argv):
        terminal = Terminal(*argv, env=self.environment)
        self.addCleanup(terminal.close)
        return terminal

    def finish(self, process):
        if process.poll() is None:
            process.kill()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream:
                stream.close()
        process.wait()

    def run_program(self, *argv, **more):
        return subprocess.run([str(a) for a in argv], capture_output=True, check=False,
                              timeout=100, env={**self.environment, **more.pop("env", {})}, **more)

    def ready(self, process):
        """Seeds and admin address of the ready line, which must be the first line."""
        readable, _, _ = select.select([process.stdout], [], [], READY_SECONDS_MAX)
        self.assertTrue(readable, "no ready line")
        line = process.stdout.readline().decode().rstrip("\n")
        match = READY.match(line)
        if not match:
            process.kill()
            self.fail(f"no ready line but {line!r}; stderr: {process.stderr.read().decode()}")
        return match.group(1), match.group(2)

    def stop(self, process, number=signal.SIGTERM):
        """Gives the exit status, and what was still on its output."""
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
        return process.returncode, out.decode(), err.decode()

    def check_that_a_signal_ends_all_of_a_command(self, *argv):
        """For scripts that run a command: told to end, they end it, and what it started."""
        process = self.start(*argv, "bash", "-c", "echo started; tail -f /dev/null; true",
                             stdin=subprocess.DEVNULL)
        while process.stdout.readline() not in (b"started\n", b""):
            pass
        status, _, err = self.stop(process)
        self.assertEqual(status, 143, err)
        self.assertTrue(wait_until(lambda: not processes_of(self.marker), 10))

    def check_that_a_command_reads_the_keyboard(self, *argv):
        terminal = self.start_at_terminal(*argv, "bash", "--norc", "-i")
        # Not as it is typed, which the terminal shows, too.
        terminal.type(b"echo read-$((40 + 2))\n")
        self.assertTrue(terminal.wait_shown(b"read-42"))
        terminal.type(b"exit 5\n")
        self.assertEqual(terminal.process.wait(30), 5)

    def ringctl(self, seeds, admin, *argv, status=0, stdin=b""):
        result = self.run_program(program("ringctl"), *argv, input=stdin,
                                  env={"RING_SEEDS": seeds, "RING_ADMIN": admin})
        self.assertEqual(result.returncode, status, f"ringctl {argv}: {result.stderr.decode()}")
        return result.stdout

    def round_trip(self, seeds, admin):
        """Every operation, with every byte value and a large value, through every memgest."""
        value = bytes(range(256)) * 5
        large = bytes((i * 7 + i // 251) % 256 for i in range(100_000))
        for memgest in ("REP1", "REP3", "SRS32"):
            key = f"key of {memgest}"
            for data in (value, large, b""):
                source = self.folder / "value"
                source.write_bytes(data)
                self.ringctl(seeds, admin, "put", key, "--file", source, "--memgest", memgest)
                self.assertEqual(self.get(seeds, admin, key), data)
        self.ringctl(seeds, admin, "put", "moving", "--file", "-", "--memgest", "REP3", stdin=large)
        for memgest in ("SRS32", "REP1", "SRS21", "REP3"):
            self.ringctl(seeds, admin, "move", "moving", memgest)
            self.assertEqual(self.get(seeds, admin, "moving"), large)
        self.ringctl(seeds, admin, "delete", "moving")
        self.ringctl(seeds, admin, "get", "moving", status=1)

    def get(self, seeds, admin, key):
        target = self.folder / "got"
        self.ringctl(seeds, admin, "get", key, "--file", target)
        return target.read_bytes()


class BenchPrograms(Programs):
    """Gives what a run of ring-bench found, by section."""

    def bench(self, *argv):
        path = self.folder / "result.json"
        result = self.run_program(program("ring-bench"), *argv, "--json", path)
        self.assertEqual(result.returncode, 0, result.stdout.decode() + result.stderr.decode())
        found = json.loads(path.read_text())
        self.assertTrue(found["sections"])
        for section in found["sections"]:
            for row in section["rows"]:
                self.assertFalse([key for key in row if not re.fullmatch("[a-z][a-z0-9_]*", key)])
        return found["sections"]
