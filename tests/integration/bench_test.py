"""ring-bench: every subcommand runs, checks what it reads, and writes JSON. No figure is judged."""

import json
import shutil
import unittest

from programs import Programs, program


class Bench(Programs):
    def bench(self, *argv):
        path = self.folder / "result.json"
        result = self.run_program(program("ring-bench"), *argv, "--json", path)
        self.assertEqual(result.returncode, 0, result.stdout.decode() + result.stderr.decode())
        found = json.loads(path.read_text())
        self.assertTrue(found["sections"])
        return found["sections"]

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
                                  "--pipeline", 8, "--distribution", "zipfian", "--clients", 2)
            self.assertIn(transport, sections[0]["title"])

    def test_kv_mixes_by_the_ratio_and_reports_floors_and_calls(self):
        measured, floors, calls = self.bench(
            "kv", "--key-count", 200, "--seconds", 0.1, "--rounds", 1, "--memgest", "REP3,SRS32",
            "--op", "put,get,mixed", "--read-ratio", 0.25, "--distribution", "uniform", "--pin",
            "--transport", "tcp", "--floor", "--count-calls")
        self.assertIn("uniform", measured["title"])
        self.assertEqual([row["op"] for row in measured["rows"]],
                         ["put", "get", "mixed put", "mixed get"] * 2)
        self.assertEqual(sum(row["failed"] + row["wrong_values"] for row in measured["rows"]), 0)
        rates = [row["ops_per_second"] for row in measured["rows"]]
        for puts, gets in (rates[2:4], rates[6:8]):
            self.assertAlmostEqual(gets / (gets + puts), 0.25, delta=0.15)
        for row in floors["rows"]:
            self.assertGreater(row["memory work_ns"], 0)
            self.assertGreater(row["of the floor_ratio"], 0)
        self.assertEqual([row["op"] for row in floors["rows"]], ["put", "get"] * 2)
        self.assertEqual(len(calls["rows"]), 6)
        for row in calls["rows"]:
            self.assertGreater(row["all calls/batch"], 0)

    def test_a_mix_of_one_kind_is_that_kind(self):
        for ratio, operation in ((1, "mixed get"), (0, "mixed put")):
            rows = self.bench("kv", "--key-count", 100, "--seconds", 0.05, "--rounds", 1,
                              "--memgest", "REP1", "--op", "mixed", "--read-ratio", ratio,
                              "--transport", "tcp")[0]["rows"]
            self.assertEqual([row["op"] for row in rows], [operation])

    # Peers that are not installed are left out: then it is Ring alone, over TCP and shared memory.
    def test_peers_do_the_same_work_side_by_side(self):
        sections = self.bench("peers", "--key-count", 100, "--seconds", 0.05, "--rounds", 1,
                              "--value-size", 100)
        self.assertEqual(len(sections), 3)
        ring = {f"Ring {memgest} {transport}" for memgest in ("REP1", "REP3", "SRS32")
                for transport in ("tcp", "shm")}
        redis = {"Redis TCP", "Redis Unix socket"} if shutil.which("redis-server") else set()
        memcached = {"memcached TCP"} if shutil.which("memcached") else set()
        for section in sections:
            for operation in ("put", "get"):
                rows = [row for row in section["rows"] if row["op"] == operation]
                found = {row["who"] for row in rows} - {"Redis, 2 replicas, WAIT 1"}
                self.assertEqual(found, ring | redis | memcached)
                for row in rows:
                    self.assertGreater(row["ops_per_second"], 0, row)
                    self.assertLessEqual(row["p50_ns"], row["p99_ns"], row)

    def test_move_memory_and_limits(self):
        self.bench("move", "--key-count", 50, "--rounds", 1, "--value-size", "64,1024,20000")
        idle, stored = self.bench("memory", "--key-count", 500, "--memgest", "REP1,SRS32",
                                  "--idle-seconds", 1)
        self.assertGreater(idle["rows"][0]["resident_bytes"], 0)
        self.assertEqual([row["keys"] for row in stored["rows"]], [500, 500])
        self.bench("limits", "--key-count", 2000, "--rounds", 1)

    def test_kv_compares_fences_in_one_run(self):
        rows, ratios = [section["rows"] for section in self.bench(
            "kv", "--key-count", 200, "--seconds", 0.05, "--rounds", 2, "--memgest", "REP3",
            "--fence", "open,lease,check")]
        self.assertEqual([row["fence"] for row in rows], ["open", "lease", "check"] * 2)
        self.assertEqual(sum(row["failed"] + row["wrong_values"] for row in rows), 0)
        self.assertEqual([row["fence"] for row in ratios], ["lease / open", "check / open"] * 2)

    def recover(self, *argv):
        phases, gets = self.bench("recovery", "--key-count", 200, "--detect-ms", 1000,
                                  "--rate", 200, *argv)
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

    def test_an_unknown_memgest_is_an_error(self):
        result = self.run_program(program("ring-bench"), "kv", "--memgest", "NONE")
        self.assertEqual(result.returncode, 1)
        self.assertIn(b"NONE", result.stderr)
        self.assertEqual(self.run_program(program("ring-bench"), "kv", "--op", "x").returncode, 2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
