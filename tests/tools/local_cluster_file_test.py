"""Tests of tools/local_cluster_file.py."""

import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import local_cluster_file as cluster_file  # noqa: E402
from local_cluster_file import Refused, Settings  # noqa: E402


class ClusterFile(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def write(self, **settings):
        return cluster_file.write(Settings(**settings), self.folder)

    def agree(self, path, **settings):
        cluster_file.agree(Settings(**settings), path, cluster_file.read(path))

    def test_clusters_that_cannot_be_are_refused(self):
        Settings(count=5).check()
        for wrong in ({"count": 0}, {"count": 65}, {"hosts": ("10.0.0.1",)},
                      {"rdma_address": ("10.0.0.1", "10.0.0.2")}, {"transport": "rdma"},
                      {"detect_ms": 0}, {"detect_ms": 4}, {"detect_ms": 60_001},
                      {"memgests": ("REP0",)}, {"memgests": ("",)}):
            with self.assertRaises(Refused, msg=wrong):
                Settings(**{"count": 5, **wrong}).check()

    def test_ports_are_all_different(self):
        ports = cluster_file.free_ports(200)
        self.assertEqual(len(set(ports)), 200)
        self.assertTrue(all(10_000 <= port < 32_768 for port in ports))

    def test_what_is_not_asked_for_agrees_and_all_that_was_written_does(self):
        for asked in ({}, {"durable": True}, {"fail_over": False}, {"fence": "check"},
                      {"transport": "tcp"}, {"detect_ms": 500}, {"fault_injection": True},
                      {"memgests": ("REP1", "SRS32")}, {"hosts": ("127.0.0.2",) * 5},
                      {"transport": "rdma", "rdma_address": ("10.0.0.1",)}):
            path = self.write(count=5, **asked)
            self.agree(path, count=5)
            self.agree(path, count=5, **asked)
            if asked:  # it is not so by itself
                (self.folder / "ring.toml").unlink()
                path = self.write(count=5)
                with self.assertRaises(Refused, msg=asked):
                    self.agree(path, count=5, **asked)
            path.unlink()

    def test_a_folder_may_have_any_name(self):
        for name in ('a "quoted" one', "a \\ one", "\U0001d11e and \n", "it's"):
            folder = self.folder / name
            folder.mkdir()
            path = cluster_file.write(Settings(count=5, durable=True), folder)
            self.assertEqual(cluster_file.read(path)["cluster"]["name"], name)
            cluster_file.agree(Settings(count=5, durable=True), path, cluster_file.read(path))
        nameless = self.folder / "\udcff"  # no Unicode
        nameless.mkdir()
        with self.assertRaisesRegex(Refused, "has a name that no ring.toml can have"):
            cluster_file.write(Settings(count=5), nameless)
        self.assertFalse((nameless / "ring.toml").exists())

    def test_the_refusal_says_what_is_asked_for_and_what_is_there(self):
        path = self.write(count=5, fence="check")
        for asked, text in (({"count": 6}, "nodes: 6 is asked for, .* has 5$"),
                            ({"count": 5, "fence": "lease"}, "--fence: lease .* has check$"),
                            ({"count": 5, "durable": True}, "--durable: yes .* has no$"),
                            ({"count": 5, "memgests": ("REP1",)}, "REP1 .* has none$")):
            with self.assertRaisesRegex(Refused, text):
                self.agree(path, **asked)

    def test_a_folder_that_was_moved_is_refused(self):
        path = self.write(count=3, durable=True)
        path.write_text(path.read_text().replace(str(self.folder), "/nowhere"))
        with self.assertRaisesRegex(Refused, "another folder: it has /nowhere/voters"):
            self.agree(path, count=3)

    def test_a_file_is_not_written_over_nor_beside_what_voters_remember(self):
        path = self.write(count=3, durable=True)
        with self.assertRaisesRegex(Refused, "ring.toml is of a cluster already"):
            self.write(count=3)
        (self.folder / "voters" / "n0").mkdir()
        path.unlink()
        with self.assertRaisesRegex(Refused, "voters is of a cluster whose ring.toml is gone"):
            self.write(count=3)

    def test_what_is_no_file_of_a_cluster_is_refused(self):
        path = self.folder / "ring.toml"
        for text in ("", "no toml", "[cluster]\ns = 3\n"):
            path.write_text(text)
            with self.assertRaisesRegex(Refused, str(path)):
                cluster_file.read(path)


if __name__ == "__main__":
    unittest.main()
