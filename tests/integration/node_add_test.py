"""A node that the configuration does not name joins a running cluster of processes."""

import unittest

from programs import ROOT, Programs, free_port, program, wait_until

LOCAL_CLUSTER = ROOT / "tools" / "local-cluster"
KEYS = 40


class NodeAdd(Programs):
    def join(self, name):
        return self.start(program("ringd"), "--config", self.folder / "kept" / "ring.toml",
                          "--node", name, "--added")

    def test_it_waits_to_be_added_takes_roles_over_and_comes_back(self):
        cluster = self.start(LOCAL_CLUSTER, 5, "--detect-ms", 2000, "--dir",
                             self.folder / "kept")
        seeds, admin = self.ready(cluster)
        for i in range(KEYS):
            self.ringctl(seeds, admin, "put", f"k{i}", f"value {i}")
        # The cluster does not know it: it says so, and waits.
        node = self.join("n5")
        # Each thing once; who is busy answers late, which is the first, then.
        lines = iter(lambda: node.stderr.readline().decode(), "")
        self.assertTrue(any("ringctl node add n5 --data HOST:PORT" in line for line in lines))
        address, admin_address = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
        add = ("node", "add", "n5", "--data", address, "--admin", admin_address)
        self.assertIn(b"added node 5 (n5)", self.ringctl(seeds, admin, *add))
        self.assertEqual(self.ready(node), (address, admin_address))
        self.assertIn(b"added node 5 (n5)", self.ringctl(seeds, admin, *add))
        # All that a node had is on it then.
        self.ringctl(seeds, admin, "node", "drain", "n1", "--wait", 60)
        for i in range(KEYS):
            self.assertEqual(self.get(address, admin_address, f"k{i}"), f"value {i}".encode())
        # Another start of it asks the cluster again, and is a spare.
        self.assertEqual(self.stop(node)[0], 0)
        self.ready(self.join("n5"))
        self.assertEqual(self.stop(cluster)[0], 0)

    def test_a_name_of_the_file_is_refused(self):
        self.start(LOCAL_CLUSTER, 3, "--dir", self.folder / "kept")
        self.assertTrue(wait_until((self.folder / "kept" / "ring.toml").exists, 20))
        result = self.run_program(program("ringd"), "--config",
                                  self.folder / "kept" / "ring.toml", "--node", "n1", "--added")
        self.assertEqual(result.returncode, 2)
        self.assertIn(b"without --added", result.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
