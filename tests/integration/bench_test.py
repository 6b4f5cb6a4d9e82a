"""ring-bench: its subcommands run, check what they read, and write JSON. No figure is judged.

ycsb, peers and the further switches of kv are in bench_more_test.py, ec and ec-send in
bench_schemes_test.py, ec-api in bench_ec_test.py: with these, every subcommand runs.
"""

import unittest

from programs import BenchPrograms, program


class Bench(BenchPrograms):
    def test_kv_counts_every_operation_and_no_failure(self):
        sections = self.bench("kv", "--key-count", 500, "--seconds", 0.1, "--rounds", 2,
                              "--op", "put,get,mixed", "--pipeline", 4)
        rows = sections[0]["rows"]
        self.assertEqual({row["memgest"] for row in rows}, {"REP1", "REP3", "SRS32"})
        for row in rows:
            self.assertGreater(row["ops_per_second"], 0)
            self.assertEqual((row["failed"], row["wrong_values"]), (0, 0))
            self.assertLessEqual(row["p50_ns"], row["p99_ns"])

    def test_kv_over_processes_and_open_loop(self):
        for transport in ("shm", "tcp"):
            sections = self.bench("kv", "--key-count", 200, "--seconds", 0.2, "--rounds", 1,
                                  "--memgest", "REP3", "--transport", transport, "--rate", 2000,
                                  "--pipeline", 8, "--distribution", "zipfian", "--clients", 2,
                                  "--value-size", 300)
            for word in (transport, "zipfian", "300 B"):
                self.assertIn(word, sections[0]["title"])

    def test_move_memory_and_limits(self):
        self.bench("move", "--key-count", 50, "--rounds", 1, "--value-size", "64,1k,20000")
        idle, stored = self.bench("memory", "--key-count", 500, "--memgest", "REP1,SRS32",
                                  "--idle-seconds", 1)
        self.assertGreater(idle["rows"][0]["resident_bytes"], 0)
        self.assertEqual([row["keys"] for row in stored["rows"]], [500, 500])
        self.bench("limits", "--key-count", 2000, "--rounds", 1)

    def test_kv_and_move_take_empty_values(self):
        rows, = self.bench("kv", "--key-count", 100, "--seconds", 0.05, "--rounds", 1,
                           "--value-size", "0k", "--memgest", "REP1,SRS21")
        self.assertEqual(sum(row["failed"] + row["wrong_values"] for row in rows["rows"]), 0)
        self.bench("move", "--key-count", 20, "--rounds", 1, "--value-size", "0")

    def test_a_cluster_over_tcp_in_this_process_has_the_fence_asked_for(self):
        rows, = self.bench("kv", "--key-count", 100, "--seconds", 0.05, "--rounds", 1, "--memgest",
                           "REP1", "--transport", "tcp", "--fence", "check")
        self.assertIn("transport tcp, fence check", rows["title"])
        rows, = self.bench("kv", "--key-count", 100, "--seconds", 0.05, "--rounds", 1, "--memgest",
                           "REP1")
        self.assertIn("transport local, fence lease", rows["title"])

    def test_kv_compares_fences_in_one_run(self):
        rows, ratios = [section["rows"] for section in self.bench(
            "kv", "--key-count", 200, "--seconds", 0.05, "--rounds", 2, "--memgest", "REP3",
            "--fence", "open,lease,check")]
        self.assertEqual([row["fence"] for row in rows], ["open", "lease", "check"] * 2)
        self.assertEqual(sum(row["failed"] + row["wrong_values"] for row in rows), 0)
        self.assertEqual([row["fence"] for row in ratios], ["lease / open", "check / open"] * 2)

    def recover(self, *argv):
        phases, values, gets = self.bench("recovery", "--key-count", 200, "--detect-ms", 1000,
                                          "--rate", 200, "--recovery-rate", 7, *argv)
        for row in values["rows"]:
            self.assertEqual(row["limit_bytes_per_second"], 7 << 20)
        names = {row["phase"]: row["samples"] for row in phases["rows"]}
        self.assertEqual(sum(row["never"] for row in phases["rows"]), 0)
        self.assertGreater(gets["rows"][0]["gets"], 0)
        return names

    def test_recovery_in_one_process(self):
        names = self.recover("--runs", 1, "--memgest", "REP3,SRS21")
        self.assertEqual(names["killed -> first get, SRS21"], 1)
        self.assertEqual(names["killed -> all shards protected again"], 1)

    def test_recovery_of_processes_which_come_back(self):
        for transport in ("shm", "tcp"):
            names = self.recover("--runs", 2, "--memgest", "REP3", "--transport", transport)
            self.assertEqual(names["killed -> first put, REP3"], 2)
            self.assertEqual(names["killed -> all lost shards serve"], 2)

    def test_says_its_version(self):
        result = self.run_program(program("ring-bench"), "--version")
        self.assertEqual((result.returncode, result.stdout), (0, b"ring-bench 0.1.0\n"))

    def test_a_file_that_cannot_be_written_is_refused_before_it_measures(self):
        result = self.run_program(program("ring-bench"), "--json", self.folder / "none" / "a.json",
                                  "limits")
        self.assertEqual((result.returncode, result.stdout), (2, b""))
        self.assertIn(b"cannot write", result.stderr)

    def test_an_unknown_memgest_is_an_error(self):
        result = self.run_program(program("ring-bench"), "kv", "--memgest", "NONE")
        self.assertEqual(result.returncode, 1)
        self.assertIn(b"NONE", result.stderr)

    def test_a_wrong_command_line_ends_with_2(self):
        for argv in (["kv", "--op", "x"], ["kv", "--seeds", "nowhere"],
                     ["kv", "--seeds", "127.0.0.1:1", "--admin", "nowhere", "--count-calls"],
                     ["ycsb", "--memgest", "REP3"], ["ycsb", "--seeds", "127.0.0.1:1"]):
            result = self.run_program(program("ring-bench"), *argv)
            self.assertEqual(result.returncode, 2, (argv, result.stderr))


if __name__ == "__main__":
    unittest.main(verbosity=2)
