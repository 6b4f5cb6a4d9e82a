"""ringd: the ready line, a round trip of every operation, signals, and bad configurations."""

import signal
import socket
import time
import unittest

from programs import BUILD, Programs, program, wait_until, processes_of


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
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            port = one.getsockname()[1]
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

    def test_stops_within_a_second_and_leaves_no_sockets_behind(self):
        ringd = self.start(program("ringd"), "--embedded")
        seeds, admin = self.ready(ringd)
        self.ringctl(seeds, admin, "put", "a", "b")
        start = time.monotonic()
        self.assertEqual(self.stop(ringd)[0], 0)
        print(f"stopped after {time.monotonic() - start:.2f} s")
        self.assertTrue(wait_until(lambda: not processes_of(self.marker), 5))


class CommandLine(Programs):
    def test_help_and_version_go_to_the_output(self):
        for option, text in (("--help", b"SIGNALS"), ("--version", b"ringd ")):
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
