"""tools/local-cluster in a folder that has a cluster already: the same one starts again."""

import json
import unittest

from programs import ROOT, Programs

LOCAL_CLUSTER = ROOT / "tools" / "local-cluster"


class LocalClusterAgain(Programs):
    def setUp(self):
        super().setUp()
        self.kept = self.folder / "kept"

    def start_kept(self, *argv):
        # Who is only late, on a busy machine, is not missed: its shards would stop once more.
        return self.start(LOCAL_CLUSTER, *argv, "--detect-ms", 2000, "--dir", self.kept)

    def test_a_durable_one_waits_for_the_loss_to_be_accepted_and_has_its_catalogue(self):
        cluster = self.start_kept(5, "--durable")
        addresses = self.ready(cluster)
        self.ringctl(*addresses, "memgest", "create", "--rep", 2, "--name", "mine")
        self.ringctl(*addresses, "put", "k", "v", "--memgest", "mine")
        self.assertEqual(self.stop(cluster)[0], 0)
        cluster = self.start_kept(5, "--durable")
        self.assertEqual(cluster.stdout.readline().decode(),
                         "stopped: seeds={} admin={}\n".format(*addresses))
        lines = [cluster.stderr.readline().decode() for _ in range(5)]
        self.assertIn(f"again as in {self.kept}/ring.toml\n", lines[0])
        self.assertRegex(lines[1], r": \d+ shards are stopped")
        self.assertEqual(lines[2], f"  export RING_ADMIN={addresses[1]}\n")
        # What it says is what helps.
        self.assertEqual(lines[3], "  ringctl health\n")
        health = json.loads(self.ringctl(*addresses, "health", "--json", status=2))
        self.assertTrue(all(shard["stopped"] for shard in health["shards_not_serving"]))
        self.assertRegex(lines[4], r"^  ringctl accept-loss --yes ")
        self.ringctl(*addresses, "accept-loss", "--yes")
        self.assertEqual(self.ready(cluster), addresses)
        self.ringctl(*addresses, "get", "k", status=1)
        self.ringctl(*addresses, "put", "k", "w", "--memgest", "mine")
        self.assertEqual(self.get(*addresses, "k"), b"w")
        status, _, err = self.stop(cluster)
        self.assertEqual(status, 0, err)

    def test_a_command_runs_on_a_stopped_one(self):
        self.assertEqual(self.run_program(LOCAL_CLUSTER, 3, "--durable", "--detect-ms", 2000,
                                          "--dir", self.kept, "--",
                                          "true").returncode, 0)
        # That it is durable, the folder says.
        result = self.run_program(LOCAL_CLUSTER, 3, "--dir", self.kept, "--", "bash", "-c",
                                  "ringctl accept-loss --yes && ringctl put k v && exit 7")
        self.assertEqual(result.returncode, 7, result.stderr)
        self.assertRegex(result.stdout, rb"^stopped: seeds=")

    def test_one_that_remembers_nothing_has_its_ports_again(self):
        addresses = []
        for _ in range(2):
            cluster = self.start_kept(3)
            addresses.append(self.ready(cluster))
            self.assertEqual(self.stop(cluster)[0], 0)
        self.assertEqual(addresses[0], addresses[1])

    def test_another_cluster_is_refused_there(self):
        result = self.run_program(LOCAL_CLUSTER, 6, "--durable", "--dir", self.kept,
                                  "--write-only")
        self.assertEqual(result.returncode, 0, result.stderr)
        before = (self.kept / "ring.toml").read_bytes()
        for argv in (("local-cluster", 5, "--dir"), ("local-cluster", 6, "--write-only", "--dir"),
                     ("local-cluster", 6, "--fence", "check", "--dir"),
                     ("chaos", "--nodes", 6, "--faults", "kill", "--keep")):
            result = self.run_program(ROOT / "tools" / argv[0], *argv[1:], self.kept)
            self.assertEqual((result.returncode, result.stdout), (2, b""), argv)
            self.assertIn(bytes(self.kept / "ring.toml"), result.stderr.splitlines()[-1])
        self.assertEqual((self.kept / "ring.toml").read_bytes(), before)


if __name__ == "__main__":
    unittest.main(verbosity=2)
