"""tools/local-cluster: nodes in processes of their own, over shared memory and over TCP."""

import json
import os
import re
import signal
import unittest
from pathlib import Path

from programs import ROOT, Programs, processes_of, program, wait_until

LOCAL_CLUSTER = ROOT / "tools" / "local-cluster"


class LocalCluster(Programs):
    def links(self, seeds, admin):
        """The links between nodes, as each of them tells; none to itself."""
        stats = json.loads(self.ringctl(seeds, admin, "stats", "--json"))
        return {link for node in stats["nodes"] for link in node["transports"] if link}

    def serve(self, links, *argv):
        cluster = self.start(LOCAL_CLUSTER, *argv)
        addresses = self.ready(cluster)
        self.round_trip(*addresses)
        self.assertEqual(self.links(*addresses), {links})
        status, out, err = self.stop(cluster)
        self.assertEqual((status, out), (0, ""), err)
        self.assertTrue(wait_until(lambda: not processes_of(self.marker), 10))
        # Configurations, logs and sockets went away with it.
        self.assertEqual([p.name for p in self.folder.glob("ring-*")], [])

    def test_five_processes_serve_over_shared_memory(self):
        self.serve("shm", 5, "--transport", "shm")

    def test_five_processes_serve_over_tcp(self):
        self.serve("tcp", 5, "--transport", "tcp")

    def test_runs_a_command_and_returns_its_status(self):
        result = self.run_program(LOCAL_CLUSTER, 5, "--", "bash", "-c",
                                  "ringctl put k v && ringctl get k && exit 3")
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertEqual(processes_of(self.marker), [])

    def test_a_signal_ends_all_of_the_command(self):
        self.check_that_a_signal_ends_all_of_a_command(LOCAL_CLUSTER, 3, "--")

    def test_the_command_reads_what_is_typed(self):
        self.check_that_a_command_reads_the_keyboard(LOCAL_CLUSTER, 3, "--")

    def test_with_one_node_gone_another_answers_for_the_cluster(self):
        tree = self.folder / "tree"
        tree.mkdir()
        (tree / "file").write_bytes(b"bytes")
        cluster = self.start(LOCAL_CLUSTER, 6, "--fault-injection")
        seeds, admin = self.ready(cluster)
        self.assertEqual(len(set(admin.split(","))), 6)
        self.ringctl(seeds, admin, "fault", "kill", "n0")
        self.assertTrue(wait_until(lambda: b'"down"' in self.ringctl(
            seeds, admin, "cluster", "--json"), 20))
        result = self.run_program(program("ring-demo"), tree,
                                  env={"RING_SEEDS": seeds, "RING_ADMIN": admin})
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def kill_node(self, name):
        """Kills the process of a node from outside."""
        for pid in processes_of(self.marker):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
            if words[-3:-1] == ["--node", name]:
                os.kill(pid, signal.SIGKILL)
                self.assertTrue(wait_until(lambda: pid not in processes_of(self.marker), 10))
                return
        self.fail(f"no process of {name}")

    def test_only_where_nodes_may_be_made_to_fail_is_a_killed_one_no_failure(self):
        for options, status, text in ((("--fault-injection",), 0, "node n1 was killed, as asked"),
                                      ((), 1, "node n1 ended with status -9")):
            cluster = self.start(LOCAL_CLUSTER, 3, *options)
            self.ready(cluster)
            self.kill_node("n1")
            ended, _, err = self.stop(cluster)
            self.assertEqual(ended, status, err)
            self.assertIn(text, err)

    def test_a_small_cluster_says_its_shape(self):
        cluster = self.start(LOCAL_CLUSTER, 3, "--dir", self.folder / "kept")
        self.ready(cluster)
        status, _, err = self.stop(cluster, signal.SIGINT)
        self.assertEqual(status, 0, err)
        self.assertIn("s=2 d=1", err)
        self.assertTrue((self.folder / "kept" / "ring.toml").exists())

    def test_false_alarms_are_counted_on_such_a_cluster(self):
        result = self.run_program(ROOT / "tools" / "false-alarms", "--seconds", 0.5, "--busy", 0,
                                  "--detect-ms", 5000)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(b"false_alarms=0 seconds=0.5 nodes=5 busy=0 detect_ms=5000 transport=tcp",
                      result.stdout)
        self.assertEqual(processes_of(self.marker), [])

    def test_a_signal_leaves_nothing_of_a_count_of_false_alarms(self):
        process = self.start(ROOT / "tools" / "false-alarms", "--busy", 1)
        self.assertTrue(wait_until(
            lambda: any(out.read_bytes() for out in self.folder.glob("ring-alarms-*/*.out")), 60))
        status, out, err = self.stop(process)
        self.assertEqual((status, out), (143, ""), err)
        self.assertTrue(wait_until(lambda: not processes_of(self.marker), 10))
        self.assertEqual(list(self.folder.glob("ring-*")), [])

    def test_without_programs_nothing_is_left(self):
        for argv in ((LOCAL_CLUSTER, 3), (ROOT / "tools" / "false-alarms",),
                     (ROOT / "tools" / "chaos",)):
            result = self.run_program(*argv, env={"RING_BUILD": "/nowhere"})
            self.assertEqual(result.returncode, 1, argv)
            self.assertIn(b"there is no /nowhere/", result.stderr)
            self.assertEqual(list(self.folder.glob("ring-*")), [])

    def test_rdma_gives_each_node_an_address_of_the_device(self):
        for addresses, expected in (("10.77.0.1", ["10.77.0.1"] * 3),
                                    ("10.0.0.1,10.0.0.2,10.0.0.3",
                                     ["10.0.0.1", "10.0.0.2", "10.0.0.3"])):
            folder = self.folder / addresses.replace(",", "-")
            result = self.run_program(LOCAL_CLUSTER, 3, "--transport", "rdma", "--rdma-address",
                                      addresses, "--dir", folder, "--write-only")
            self.assertEqual(result.returncode, 0, result.stderr)
            text = (folder / "ring.toml").read_text()
            self.assertIn('\ntransport = "rdma"\n', text)
            self.assertEqual(re.findall(r'\nrdma = "([\d.]+):\d+"', text), expected)
            self.assertNotIn("shm =", text)

    def test_a_node_that_has_to_have_a_device_says_what_to_do_without_one(self):
        result = self.run_program(LOCAL_CLUSTER, 2, "--transport", "rdma", "--rdma-address",
                                  "192.0.2.1")  # that no machine has
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn(b"rdma=192.0.2.1:", result.stderr)
        self.assertIn(b"ringctl doctor --config FILE --node n0", result.stderr)

    def test_wrong_arguments_are_status_2(self):
        for argv in ((), (0,), (65,), (5, "--transport", "rdma"), (5, "--"), (5, "--durable"),
                     (5, "--write-only"), (5, "--rdma-address", "10.0.0.1,10.0.0.2")):
            self.assertEqual(self.run_program(LOCAL_CLUSTER, *argv).returncode, 2, argv)


if __name__ == "__main__":
    unittest.main(verbosity=2)
