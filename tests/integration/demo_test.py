"""tools/demo: a small tree through REP3, SRS32 and REP1, verified and scrubbed."""

import os
import unittest

from programs import ROOT, Programs

RUN = ROOT / "tools" / "run"
DEMO = ROOT / "tools" / "demo"


class Demo(Programs):
    def test_loads_moves_verifies_and_scrubs_a_tree(self):
        tree = self.folder / "tree"
        (tree / "below").mkdir(parents=True)
        for i in range(40):
            size = (0, 1, 63, 64, 1000, 8192, 8193, 70_000)[i % 8]
            (tree / f"file {i}").write_bytes(os.urandom(size))
        (tree / "below" / "large").write_bytes(os.urandom(3_000_000))
        with open(os.fsencode(tree / "below") + b"/not \xff utf-8", "wb") as file:
            file.write(b"bytes")
        with open(tree / "too large", "wb") as file:
            file.truncate((16 << 20) + 1)
        os.symlink("/etc", tree / "link")
        result = self.run_program(RUN, "--", DEMO, tree)
        out = result.stdout.decode()
        self.assertEqual(result.returncode, 0, out + result.stderr.decode())
        self.assertIn("loading 42 files", out)
        self.assertIn("too large: larger than 16 MiB", out)
        self.assertIn("verified: 42 values", out)
        self.assertIn(" 0 mismatches", out)
        for memgest in ("REP3 Rep(3)", "SRS32 SRS(3,2)", "REP1 Rep(1)"):
            self.assertIn(memgest, out)

    def test_without_a_cluster_or_a_folder_it_says_what_to_do(self):
        self.assertEqual(self.run_program(DEMO).returncode, 2)
        result = self.run_program(DEMO, self.folder)
        self.assertEqual(result.returncode, 2)
        self.assertIn(b"tools/run -- ", result.stderr)

    def test_a_folder_without_files_is_an_error(self):
        (self.folder / "empty").mkdir()
        result = self.run_program(RUN, "--", DEMO, self.folder / "empty")
        self.assertEqual(result.returncode, 1)
        self.assertIn(b"no file", result.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
