"""tools/demo: a small tree through REP3, SRS32 and REP1, verified and scrubbed."""

import os
import re
import unittest

from programs import ROOT, Programs, program

RUN = ROOT / "tools" / "run"
DEMO = ROOT / "tools" / "demo"
LATENCIES = r"^[0-9.]+ [num]?s / [0-9.]+ [num]?s$"


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
        self.assertIn("too large: larger than 16.0 MiB", out)
        self.assertIn("verified: 42 values", out)
        self.assertIn(" 0 mismatches", out)
        self.check_table(out, 42)

    # A row by memgest, under its heading; cells are two spaces apart.
    def check_table(self, out, files):
        lines = [re.split(r" {2,}", line.strip()) for line in out.splitlines()]
        heading = ["MEMGEST", "KEYS", "LOGICAL", "RESIDENT", "OVERHEAD", "IDEAL",
                   "PUT P50 / P99", "GET P50 / P99", "MOVE INTO P50 / P99"]
        self.assertIn(heading, [[cell.upper() for cell in line] for line in lines], out)
        rows = {line[0]: dict(zip(heading[1:], line[1:])) for line in lines
                if len(line) == len(heading)}
        ideals = {"REP3 Rep(3)": 3, "SRS32 SRS(3,2)": 5 / 3, "REP1 Rep(1)": 1}
        for memgest, ideal in ideals.items():
            row = rows[memgest]
            self.assertEqual(int(row["KEYS"]), files // 3, out)
            self.assertEqual(row["IDEAL"], f"{ideal:.2f}x")
            # What a scheme stores is the least that it takes.
            self.assertGreaterEqual(float(row["OVERHEAD"].rstrip("x")), float(f"{ideal:.2f}"))
            for column in ("LOGICAL", "RESIDENT"):
                self.assertRegex(row[column], r"^[1-9][0-9.]* ([KMG]i)?B$")
            self.assertRegex(row["GET P50 / P99"], LATENCIES)
        # Everything is put into REP3 first; then two thirds are moved.
        self.assertRegex(rows["REP3 Rep(3)"]["PUT P50 / P99"], LATENCIES)
        self.assertEqual(rows["REP3 Rep(3)"]["MOVE INTO P50 / P99"], "-")
        for memgest in ("SRS32 SRS(3,2)", "REP1 Rep(1)"):
            self.assertEqual(rows[memgest]["PUT P50 / P99"], "-")
            self.assertRegex(rows[memgest]["MOVE INTO P50 / P99"], LATENCIES)

    def test_says_its_version(self):
        result = self.run_program(program("ring-demo"), "--version")
        self.assertEqual((result.returncode, result.stdout), (0, b"ring-demo 0.1.0\n"))

    def test_without_a_cluster_or_a_folder_it_says_what_to_do(self):
        self.assertEqual(self.run_program(DEMO).returncode, 2)
        result = self.run_program(DEMO, self.folder)
        self.assertEqual(result.returncode, 2)
        self.assertIn(b"tools/run -- ", result.stderr)

    def test_addresses_that_are_none_are_status_2(self):
        (self.folder / "file").write_bytes(b"bytes")
        ringd = self.start(program("ringd"), "--embedded")
        seeds, admin = self.ready(ringd)
        for environment in ({"RING_SEEDS": "nowhere", "RING_ADMIN": admin},
                            {"RING_SEEDS": seeds, "RING_ADMIN": f"{admin},nowhere"}):
            result = self.run_program(program("ring-demo"), self.folder, env=environment)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn(b"nowhere", result.stderr)

    def test_operators_token_is_asked_for_before_anything_is_put(self):
        (self.folder / "file").write_bytes(b"bytes")
        token = self.folder.parent / f"{self.folder.name}.token"
        self.addCleanup(token.unlink)
        token.touch(mode=0o600)
        token.write_text("0123456789abcdef0123456789abcdef")
        ringd = self.start(program("ringd"), "--embedded", "--admin-token-file", token)
        seeds, admin = self.ready(ringd)
        environment = {"RING_SEEDS": seeds, "RING_ADMIN": admin}
        result = self.run_program(program("ring-demo"), self.folder, env=environment)
        self.assertEqual(result.returncode, 1)
        self.assertIn(b"token", result.stderr)
        self.assertNotIn(b"REP3", result.stdout)
        environment["RING_ADMIN_TOKEN_FILE"] = str(token)
        result = self.run_program(program("ring-demo"), self.folder, env=environment)
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_a_folder_without_files_is_an_error(self):
        (self.folder / "empty").mkdir()
        result = self.run_program(RUN, "--", DEMO, self.folder / "empty")
        self.assertEqual(result.returncode, 1)
        self.assertIn(b"no file", result.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
