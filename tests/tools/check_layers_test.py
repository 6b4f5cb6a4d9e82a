"""Tests of tools/check_layers.py."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import check_layers  # noqa: E402


class Table(unittest.TestCase):
    def test_the_table_in_use_names_only_layers_and_has_no_cycle(self):
        self.assertEqual(check_layers.table_errors(), [])

    def test_a_cyclic_table_is_refused(self):
        layers = {"a": {"b"}, "b": {"c"}, "c": {"a"}}
        self.assertEqual(check_layers.find_cycle(layers), ["a", "b", "c", "a"])
        self.assertIn("cyclic", check_layers.table_errors(layers)[0])

    def test_a_layer_that_may_include_itself_is_a_cycle(self):
        self.assertEqual(check_layers.find_cycle({"a": {"a"}}), ["a", "a"])

    def test_a_diamond_is_no_cycle(self):
        self.assertIsNone(check_layers.find_cycle({"a": {"b", "c"}, "b": {"d"}, "c": {"d"},
                                                   "d": set()}))

    def test_an_unknown_lower_layer_is_refused(self):
        self.assertIn("no layer", check_layers.table_errors({"a": {"b"}})[0])

    def test_the_core_layers_exist(self):
        self.assertLessEqual(check_layers.CORE, set(check_layers.LAYERS))


class LayerOf(unittest.TestCase):
    def test_the_longest_prefix_wins(self):
        self.assertEqual(check_layers.layer_of("api/client.h"), "api")
        self.assertEqual(check_layers.layer_of("api/admin_service.cc"), "api/admin")
        self.assertEqual(check_layers.layer_of("api/admin/service.cc"), "api/admin")
        self.assertEqual(check_layers.layer_of("ring/base/log.h"), "ring/base")

    def test_a_prefix_ends_at_a_boundary(self):
        self.assertEqual(check_layers.layer_of("api/administrator.h"), "api")
        self.assertIsNone(check_layers.layer_of("srsx/a.h"))
        self.assertIsNone(check_layers.layer_of("absl/status/status.h"))


class CheckText(unittest.TestCase):
    def findings(self, path, *includes):
        return check_layers.check_text(path, "".join(f"#include {name}\n" for name in includes))

    def test_allowed_edges_pass(self):
        self.assertEqual(self.findings("memgest/heap.cc", '"memgest/heap.h"', '"srs/layout.h"',
                                       '"ring/base/log.h"', '"absl/status/status.h"',
                                       "<vector>", "<gtest/gtest.h>"), [])

    def test_an_edge_upwards_is_found_with_its_line(self):
        self.assertEqual(
            self.findings("srs/layout.h", "<vector>", '"memgest/heap.h"'),
            ["srs/layout.h:2: srs must not include memgest (memgest/heap.h)"])

    def test_base_sees_nothing(self):
        self.assertEqual(len(self.findings("ring/base/log.h", '"rdma/fabric.h"')), 1)

    def test_rdma_knows_nothing_of_the_store(self):
        for header in ('"ring/protocol/frame.h"', '"memgest/heap.h"', '"consensus/raft.h"'):
            self.assertEqual(len(self.findings("rdma/soft/device.cc", header)), 1, header)

    def test_tools_and_tests_see_everything(self):
        for path in ("tools/ringd.cc", "tests/sim/cluster.cc"):
            self.assertEqual(self.findings(path, '"ring/node/node.h"', '"api/client.h"',
                                           "<thread>"), [])

    def test_the_core_has_no_threads_clocks_or_devices(self):
        banned = ["<thread>", "<mutex>", "<condition_variable>", "<chrono>", "<random>",
                  "<iostream>", "<sys/socket.h>", "<infiniband/verbs.h>", "<grpcpp/grpcpp.h>",
                  '"grpcpp/server.h"']
        for layer in sorted(check_layers.CORE):
            for header in banned:
                self.assertEqual(len(self.findings(f"{layer}/x.cc", header)), 1,
                                 f"{layer} {header}")
            self.assertEqual(self.findings(f"{layer}/x.cc", "<vector>", "<ostream>"), [])

    def test_consensus_storage_may_do_files_but_the_core_may_not_use_it(self):
        self.assertEqual(self.findings("consensus/file_storage.cc", "<sys/stat.h>",
                                       '"consensus/raft.h"'), [])
        self.assertEqual(len(self.findings("consensus/raft.cc", '"consensus/file_storage.h"')), 1)

    def test_relative_includes_are_refused(self):
        self.assertEqual(len(self.findings("srs/layout.cc", '"../srs/layout.h"')), 1)

    def test_a_file_in_no_layer_is_found(self):
        self.assertIn("no layer owns", self.findings("misc/x.cc")[0])

    def test_an_include_in_a_comment_does_not_count(self):
        self.assertEqual(check_layers.check_text("srs/a.h", '// #include "memgest/heap.h"\n'), [])


if __name__ == "__main__":
    unittest.main()
