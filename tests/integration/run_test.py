"""tools/run: runs a command against a cluster of its own, and leaves nothing running."""

import os
import signal
import subprocess
import unittest

from programs import ROOT, Programs, processes_of, wait_until

RUN = ROOT / "tools" / "run"


class Run(Programs):
    def test_gives_the_command_a_cluster_and_returns_its_status(self):
        script = "ringctl put k v && ringctl get k && exit 7"
        result = self.run_program(RUN, "--", "bash", "-c", script)
        self.assertEqual(result.returncode, 7, result.stderr)
        self.assertIn(b"v", result.stdout)
        self.assertEqual(processes_of(self.marker), [])

    def test_returns_success_of_the_command(self):
        result = self.run_program(RUN, "--", "bash", "-c", 'echo "$RING_SEEDS $RING_ADMIN"')
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout.decode(), r"^127\.0\.0\.1:\d+\S* 127\.0\.0\.1:\d+\n$")

    def test_a_command_that_is_not_there_is_status_127(self):
        result = self.run_program(RUN, "--", "no-such-command-of-ring")
        self.assertEqual(result.returncode, 127)

    def test_in_the_foreground_a_signal_stops_it(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            process = self.start(RUN)
            seeds, admin = self.ready(process)
            status, out, _ = self.stop(process, number)
            self.assertEqual(status, 0)
            # What to try next.
            self.assertIn(f"RING_SEEDS={seeds} RING_ADMIN={admin}", out)

    def test_a_signal_stops_command_and_cluster(self):
        process = self.start(RUN, "--", "bash", "-c", "echo started; exec tail -f /dev/null",
                             start_new_session=True)
        self.assertEqual(process.stdout.readline(), b"started\n")
        # As a terminal does: to the whole group.
        os.killpg(process.pid, signal.SIGINT)
        process.communicate(timeout=30)
        self.assertEqual(process.returncode, 130)
        self.assertTrue(wait_until(lambda: not processes_of(self.marker), 10))

    def test_a_signal_to_it_alone_ends_all_of_the_command(self):
        self.check_that_a_signal_ends_all_of_a_command(RUN, "--")

    def test_the_command_reads_what_is_typed(self):
        self.check_that_a_command_reads_the_keyboard(RUN, "--")

    def test_the_command_reads_what_is_piped(self):
        result = self.run_program(RUN, "--", "cat", input=b"piped")
        self.assertEqual((result.returncode, result.stdout), (0, b"piped"), result.stderr)

    def test_even_a_killed_shell_leaves_no_cluster(self):
        process = self.start(RUN, "--", "bash", "-c", "echo started; read -r line",
                             stdin=subprocess.PIPE)
        self.assertEqual(process.stdout.readline(), b"started\n")
        process.kill()
        process.stdin.close()
        process.wait()
        self.assertTrue(wait_until(lambda: not processes_of(self.marker), 10))

    def test_a_cluster_that_cannot_start_is_status_1(self):
        result = self.run_program(RUN, "--no-such-option", "--", "true")
        self.assertEqual(result.returncode, 1)
        self.assertIn(b"did not start", result.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
