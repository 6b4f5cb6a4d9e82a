"""ring-bench: the switches of kv that bench_test.py leaves out, ycsb and peers. No figure is
judged."""

import shutil
import unittest

from programs import BenchPrograms, program


class BenchMore(BenchPrograms):
    def test_kv_mixes_by_the_ratio_and_reports_floors_and_calls(self):
        measured, floors, calls, work = self.bench(
            "kv", "--key-count", 200, "--seconds", 1, "--rounds", 1, "--memgest", "REP3,SRS32",
            "--op", "put,get,mixed", "--read-ratio", 0.25, "--distribution", "uniform", "--pin",
            "--transport", "tcp", "--floor", "--count-calls")
        self.assertIn("uniform", measured["title"])
        self.assertEqual(sum(row["failed"] + row["wrong_values"] for row in measured["rows"]), 0)
        for memgest in ("REP3", "SRS32"):
            rates = {row["op"]: row["ops_per_second"] for row in measured["rows"]
                     if row["memgest"] == memgest}
            self.assertEqual(set(rates), {"put", "get", "mixed put", "mixed get"})
            self.assertGreater(rates["mixed get"], 0)
            self.assertGreater(rates["mixed put"], rates["mixed get"])  # three to one
        for row in floors["rows"]:
            self.assertGreater(row["memory_work_ns"], 0)
            self.assertGreater(row["of_the_floor_ratio"], 0)
        self.assertEqual([row["op"] for row in floors["rows"]], ["put", "get"] * 2)
        self.assertEqual(len(calls["rows"]), 6)
        for row in calls["rows"]:
            self.assertGreater(row["all_calls_per_batch"], 0)
        self.assertEqual(len(work["rows"]), 7)  # and a second of rest
        for row in work["rows"][:-1]:
            self.assertGreaterEqual(row["requests"], row["chains"])
            self.assertGreater(row["chains"], 0)
            self.assertGreater(row["bytes"], 1024)
            self.assertEqual(row["card_requests"] + row["queue_pairs_made"], 0)  # by TCP
        for memgest in ("REP3", "SRS32"):
            sent = {row["op"]: row["bytes"] for row in work["rows"] if row["memgest"] == memgest}
            self.assertGreater(sent["put"], 2 * 1024)  # to two members
            self.assertLess(sent["get"], 2 * 1024)     # to the client alone

    def test_a_mix_of_one_kind_is_that_kind(self):
        for ratio, operation in ((1, "mixed get"), (0, "mixed put")):
            rows = self.bench("kv", "--key-count", 100, "--seconds", 0.3, "--rounds", 1,
                              "--memgest", "REP1", "--op", "mixed", "--read-ratio", ratio,
                              "--transport", "tcp")[0]["rows"]
            self.assertEqual([row["op"] for row in rows], [operation])

    # That each degraded read was one of a node that decoded is what the program looks at.
    def test_ycsb_decodes_a_share_of_the_reads_by_each_scheme(self):
        section, = self.bench("ycsb", "--key-count", 50, "--seconds", 0.5, "--rounds", 1,
                              "--value-size", "1k", "--degraded", 0.2, "--workload", "A,C",
                              "--repair", "rs,ppr")
        self.assertIn("degraded reads 0.2", section["title"])
        self.assertEqual([(row["workload"], row["repair"]) for row in section["rows"]],
                         [("A", "rs"), ("A", "ppr"), ("C", "rs"), ("C", "ppr")])
        for row in section["rows"]:
            self.assertGreater(row["ops_per_second"], 0)
            self.assertGreater(row["degraded_reads"], 0)
            self.assertEqual(row["update_count"] > 0, row["workload"] == "A")

    def test_calls_that_cannot_be_counted_are_an_error(self):
        def kv(*argv):
            return self.run_program(program("ring-bench"), "kv", "--key-count", 10, "--seconds",
                                    0.05, "--rounds", 1, "--memgest", "REP1", *argv)
        token = self.folder / "token"
        token.write_text("0123456789abcdef" * 4)
        token.chmod(0o600)
        ringd = self.start(program("ringd"), "--embedded", "--admin-token-file", token)
        seeds, admin = self.ready(ringd)
        for argv in (["--count-calls"], ["--admin", admin]):
            result = kv("--seeds", seeds, *argv)
            self.assertEqual(result.returncode, 2, argv)
            self.assertIn("--admin", (result.stdout + result.stderr).decode())
        result = kv("--seeds", seeds, "--admin", admin, "--count-calls", "--transport", "tcp")
        self.assertEqual(result.returncode, 1)
        self.assertIn(b"--count-calls: ", result.stderr)
        self.assertNotIn(b"ops", result.stdout)

    # Peers that are not installed are left out: then it is Ring alone, over TCP and shared memory.
    def test_peers_do_the_same_work_side_by_side(self):
        sections = self.bench("peers", "--key-count", 100, "--seconds", 0.1, "--rounds", 1,
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
        # In one of the short measurements a busy machine may let somebody do nothing at all.
        for who in ring | redis | memcached:
            done = sum(row["ops_per_second"] for section in sections for row in section["rows"]
                       if row["who"] == who)
            self.assertGreater(done, 0, who)


if __name__ == "__main__":
    unittest.main(verbosity=2)
