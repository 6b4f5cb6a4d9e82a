"""ring-bench ec-api: who takes part, and what is refused. No figure is judged."""

import ctypes
import unittest

from programs import BenchPrograms, program

VERBS = ["ibv_exp_ec sync", "ibv_exp_ec async, thread", "ibv_exp_ec async, polling"]


def jerasure_is_there():
    try:
        ctypes.CDLL("libgf_complete.so.1", ctypes.RTLD_GLOBAL)
        ctypes.CDLL("libJerasure.so.2")
    except OSError:
        return False
    return True


class BenchEc(BenchPrograms):
    def short(self, *argv):
        return self.bench("ec-api", "--rounds", 3, "--milliseconds", 1, *argv)

    # That each wrote the right bytes is what the program looks at first.
    def test_every_interface_codes_beside_the_peers_in_both_fields(self):
        sections = self.short("--k", 4, "--m", 2, "--w", "8,4", "--chunk", "64,4096",
                              "--max-inflight", 3)
        self.assertEqual(len(sections), 2)
        for section, peers in zip(sections, (["ISA-L", "Jerasure"],
                                             ["ISA-L, tables of w = 8",
                                              "GF-Complete, Jerasure's matrix"])):
            found = peers if jerasure_is_there() else peers[:1]
            for operation in ("encode", "decode"):
                for size in (64, 4096):
                    rows = [row for row in section["rows"]
                            if row["op"] == operation and row["block_bytes"] == size]
                    self.assertEqual([row["interface"] for row in rows],
                                     found + VERBS + ["mlx_eco"])
                    self.assertEqual(rows[0]["to_isa_l_ratio"], 1)
            for row in section["rows"]:
                self.assertEqual(len(row["rounds_ns"]), 3)
                self.assertLessEqual(row["lowest_ns"], row["time_ns"])
                self.assertLessEqual(row["time_ns"], row["highest_ns"])
                self.assertGreater(row["to_isa_l_ratio"], 0)
                self.assertEqual("to_jerasure_ratio" in row, jerasure_is_there())

    def test_sizes_may_have_units(self):
        rows = self.short("--chunk", "64,4k,1KiB", "--api", "eco", "--vs", "isal")[0]["rows"]
        self.assertEqual({row["block_bytes"] for row in rows}, {64, 1024, 4096})

    def test_each_matrix_has_a_section(self):
        sections = self.short("--k", 5, "--m", 3, "--w", "8,4", "--matrix", "vandermonde,cauchy",
                              "--chunk", 64)
        self.assertEqual([section["title"].split(";")[0] for section in sections],
                         [f"5 + 3 blocks, w = {w}, {matrix}" for w in (8, 4)
                          for matrix in ("Vandermonde", "Cauchy")])
        for section in sections:
            self.assertEqual({row["op"] for row in section["rows"]}, {"encode", "decode"})

    def test_only_what_was_named_takes_part_and_m_may_be_above_k(self):
        rows = self.short("--k", 1, "--m", 3, "--chunk", 128, "--api", "eco", "--vs",
                          "isal")[0]["rows"]
        self.assertEqual([(row["interface"], row["op"]) for row in rows],
                         [(who, what) for what in ("encode", "decode")
                          for who in ("ISA-L", "mlx_eco")])
        self.assertNotIn("to_jerasure_ratio", rows[0])

    def test_one_operation_under_way_is_a_window_too(self):
        rows = self.short("--chunk", 64, "--api", "async", "--max-inflight", 1, "--vs",
                          "isal")[0]["rows"]
        self.assertEqual([row["interface"] for row in rows], ["ISA-L", *VERBS[1:]] * 2)

    def test_a_wrong_command_line_is_named_and_ends_with_2(self):
        for argv, message in ((["--chunk", 100], "multiple of 64"),
                              (["--chunk", 0], "--chunk"),
                              (["--chunk", "4x"], "--chunk"),
                              (["--chunk", "1g"], "--chunk"),
                              (["--k", 14, "--m", 3, "--w", 4], "more than w = 4 has"),
                              (["--k", 0], "--k"),
                              (["--m", 256], "--m"),
                              (["--w", 5], "--w"),
                              (["--matrix", "random"], "--matrix"),
                              (["--api", "doca"], "--api"),
                              (["--vs", "nobody"], "--vs"),
                              (["--max-inflight", 0], "--max-inflight"),
                              (["--rounds", 0], "--rounds")):
            result = self.run_program(program("ring-bench"), "ec-api", *argv)
            self.assertEqual(result.returncode, 2, argv)
            self.assertIn(message, (result.stdout + result.stderr).decode())


if __name__ == "__main__":
    unittest.main(verbosity=2)
