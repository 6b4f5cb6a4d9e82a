"""ringd: the ready line, a round trip of every operation, signals, and bad configurations."""

import glob
import json
import os
import pty
import signal
import subprocess
import time
import unittest

from programs import BUILD, Programs, free_port, program, wait_until, processes_of


class Embedded(Programs):
    def test_prints_one_ready_line_and_nothing_else_on_its_output(self):
        ringd = self.start(program("ringd"), "--embedded")
        seeds, admin = self.ready(ringd)
        self.assertRegex(seeds, r"^(127\.0\.0\.1:\d+)(,127\.0\.0\.1:\d+)*$")
        self.assertRegex(admin, r"^127\.0\.0\.1:\d+$")
        status, out, _ = self.stop(ringd)
        self.assertEqual((status, out), (0, ""))

    def test_hints_name_the_cluster(self):
        ringd = self.start(program("ringd"), "--embedded", "--hints")
        seeds, admin = self.ready(ringd)
        status, out, _ = self.stop(ringd)
        self.assertEqual(status, 0)
        self.assertIn(f"RING_SEEDS={seeds} RING_ADMIN={admin}", out)

    def test_serves_every_operation_byte_by_byte(self):
        ringd = self.start(program("ringd"), "--embedded")
        self.round_trip(*self.ready(ringd))
        self.assertEqual(self.stop(ringd, signal.SIGINT)[0], 0)

    def test_serves_from_several_reactors(self):
        ringd = self.start(program("ringd"), "--embedded", "--reactors", 2)
        self.round_trip(*self.ready(ringd))
        self.assertEqual(self.stop(ringd)[0], 0)

    def test_listens_where_it_is_told(self):
        port = free_port()
        ringd = self.start(program("ringd"), "--embedded", "--admin-port", port)
        _, admin = self.ready(ringd)
        self.assertEqual(admin, f"127.0.0.1:{port}")
        # A second one cannot have the port, and says which it is.
        second = self.run_program(program("ringd"), "--embedded", "--admin-port", port)
        self.assertEqual(second.returncode, 1, second.stderr)
        self.assertIn(str(port).encode(), second.stderr)
        self.assertEqual(self.stop(ringd)[0], 0)

    def test_its_admin_service_asks_for_the_token_that_it_was_given(self):
        path = self.folder / "token"
        path.write_text("0123456789abcdef\n")
        path.chmod(0o600)
        ringd = self.start(program("ringd"), "--embedded", "--admin-token-file", path)
        seeds, admin = self.ready(ringd)
        self.ringctl(seeds, admin, "memgest", "default", "SRS32", status=1)
        self.ringctl(seeds, admin, "--admin-token-file", path, "memgest", "default", "SRS32")
        self.assertEqual(self.stop(ringd)[0], 0)
        path.chmod(0o644)
        careless = self.run_program(program("ringd"), "--embedded", "--admin-token-file", path)
        self.assertEqual(careless.returncode, 2)
        self.assertIn(b"chmod 600", careless.stderr)

    def test_is_the_cluster_of_the_paper(self):
        ringd = self.start(program("ringd"), "--embedded")
        ask = self.asking(*self.ready(ringd))
        view = ask("cluster")
        self.assertEqual((len(view["nodes"]), view["s"], view["d"]), (6, 3, 2))
        schemes = {m["name"]: m["scheme"] for m in ask("memgest", "list")["memgests"]}
        self.assertEqual(schemes, {
            "REP1": "Rep(1)", "REP2": "Rep(2)", "REP3": "Rep(3)", "REP4": "Rep(4)",
            "SRS21": "SRS(2,1)", "SRS31": "SRS(3,1)", "SRS32": "SRS(3,2)"})
        self.assertEqual(self.stop(ringd)[0], 0)

    def test_every_command_of_an_operator_works_on_it(self):
        ringd = self.start(program("ringd"), "--embedded")
        ask = self.asking(*self.ready(ringd))
        cold = ask("memgest", "create", "--srs", "3,2", "--name", "cold")
        self.assertEqual(cold["failures_promised"], 2)
        self.assertAlmostEqual(cold["storage_overhead"], 5 / 3)
        strict = ask("memgest", "create", "--rep", "3", "--commit", "all", "--name", "strict")
        self.assertEqual((strict["commit"], strict["failures_promised"]), ("all", 2))
        put = ask("put", "k", "value", "--memgest", "cold")
        where = ask("where", "k")
        self.assertEqual((where["memgest"], where["size"], where["version"]),
                         ("cold", 5, put["version"]))
        shown = ask("memgest", "show", "cold")
        self.assertEqual(shown["state"], "active")
        self.assertEqual((shown["stats"]["keys"], shown["stats"]["logical_bytes"]), (1, 5))
        counts = {m["name"]: m["keys"] for m in ask("stats")["memgests"]}
        self.assertEqual((counts["cold"], counts["strict"]), (1, 0))
        scrub = ask("scrub")
        self.assertEqual((scrub["mismatches"], scrub["values_checked"]), (0, 1))
        self.assertGreater(scrub["rows_checked"], 0)
        # A memgest with keys is kept, one without is not.
        self.assertIn("NOT_EMPTY", ask("memgest", "delete", "cold", status=1)["error"]["message"])
        self.assertEqual(ask("move", "k", "strict")["memgest"], "strict")
        self.assertEqual(ask("where", "k")["memgest"], "strict")
        self.assertTrue(ask("memgest", "delete", "cold")["deleted"])
        self.assertNotIn("cold", [m["name"] for m in ask("memgest", "list")["memgests"]])
        ask("memgest", "default", "strict")
        self.assertEqual(ask("put", "other", "x")["memgest"], "strict")
        ask("delete", "k")
        self.assertIn("NOT_FOUND", ask("get", "k", status=1)["error"]["code"])
        self.assertEqual(ask("health")["level"], "OK")
        self.assertEqual(self.stop(ringd)[0], 0)

    def tree(self):
        """A folder of files: empty, of every byte value, large, below other folders."""
        tree = self.folder / "tree"
        (tree / "a" / "b").mkdir(parents=True)
        (tree / "empty").write_bytes(b"")
        (tree / "a" / "bytes").write_bytes(bytes(range(256)))
        (tree / "a" / "b" / "large").write_bytes(b"0123456789" * 100_000)
        return tree

    def test_a_folder_is_loaded_and_every_byte_is_verified(self):
        ringd = self.start(program("ringd"), "--embedded")
        seeds, admin = self.ready(ringd)
        ask = self.asking(seeds, admin)
        tree = self.tree()
        loaded = ask("load", tree, "--memgest", "SRS32")
        self.assertEqual((loaded["files"], loaded["bytes"]), (3, 256 + 1_000_000))
        self.assertEqual(ask("verify", tree)["problem_count"], 0)
        # One byte of one file is enough.
        (tree / "a" / "bytes").write_bytes(bytes(range(255)) + b"!")
        self.assertEqual(ask("verify", tree, status=1)["problem_count"], 1)
        self.assertEqual(self.stop(ringd)[0], 0)

    def test_long_work_shows_a_bar_on_a_terminal_and_nothing_elsewhere(self):
        ringd = self.start(program("ringd"), "--embedded")
        seeds, admin = self.ready(ringd)
        tree = self.tree()
        terminal, end = pty.openpty()
        addresses = {**self.environment, "RING_SEEDS": seeds, "RING_ADMIN": admin}
        loading = subprocess.Popen([program("ringctl"), "load", str(tree)], env=addresses,
                                   stdout=subprocess.DEVNULL, stderr=end)
        os.close(end)
        shown = b""
        try:
            while piece := os.read(terminal, 4096):
                shown += piece
        except OSError:
            pass  # the other end was closed
        os.close(terminal)
        self.assertEqual(loading.wait(timeout=30), 0)
        self.assertRegex(shown, rb"\[=* *\] +\d+ %")
        quiet = self.run_program(program("ringctl"), "load", tree, env=addresses)
        self.assertEqual((quiet.returncode, quiet.stderr), (0, b""))
        self.assertEqual(self.stop(ringd)[0], 0)

    def asking(self, seeds, admin):
        """Gives a function that runs ringctl with --json and returns what it printed."""
        return lambda *argv, status=0: json.loads(
            self.ringctl(seeds, admin, *argv, "--json", status=status))

    def test_stops_within_a_second_and_leaves_no_sockets_behind(self):
        ringd = self.start(program("ringd"), "--embedded")
        seeds, admin = self.ready(ringd)
        self.ringctl(seeds, admin, "put", "a", "b")
        sockets = f"/tmp/ring-{ringd.pid}-*"
        self.assertTrue(glob.glob(sockets), "there are none where they are looked for")
        start = time.monotonic()
        self.assertEqual(self.stop(ringd)[0], 0)
        print(f"stopped after {time.monotonic() - start:.2f} s")
        self.assertEqual(glob.glob(sockets), [])
        self.assertTrue(wait_until(lambda: not processes_of(self.marker), 5))


class CommandLine(Programs):
    def test_help_and_version_go_to_the_output(self):
        for option, text in (("--help", b"SIGNALS"), ("--version", b"ringd 0.1.0\n")):
            result = self.run_program(program("ringd"), option)
            self.assertEqual((result.returncode, result.stderr), (0, b""))
            self.assertIn(text, result.stdout)

    def test_a_wrong_command_line_is_status_2(self):
        for argv in ([], ["--no-such-option"], ["--embedded", "--config", "x"], ["--node", "n1"]):
            result = self.run_program(program("ringd"), *argv)
            self.assertEqual(result.returncode, 2, argv)
            self.assertEqual(result.stdout, b"")
            self.assertNotEqual(result.stderr, b"")

    def test_a_wrong_configuration_is_status_2_and_names_file_line_and_problem(self):
        path = self.folder / "ring.toml"
        path.write_text('[cluster]\nname = "x"\ns = 99\nno_such_key = 1\n')
        result = self.run_program(program("ringd"), "--config", path)
        self.assertEqual((result.returncode, result.stdout), (2, b""))
        self.assertIn(f"{path}:3".encode(), result.stderr)
        self.assertIn(b"no_such_key", result.stderr)
        result = self.run_program(program("ringd"), "--config", self.folder / "none.toml")
        self.assertEqual(result.returncode, 2)
        self.assertIn(b"none.toml", result.stderr)


if __name__ == "__main__":
    assert BUILD.exists(), BUILD
    unittest.main(verbosity=2)
