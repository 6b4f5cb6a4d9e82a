"""ring-bench ec and ec-send: every scheme and primitive in every mode, and what is refused. No
figure is judged."""

import unittest

from programs import BenchPrograms, program

MODES = ["incoherent", "coherent", "hybrid"]


class BenchSchemes(BenchPrograms):
    def short(self, *argv):
        return self.bench("ec", "--rounds", 2, "--milliseconds", 1, *argv)

    # That each mode gave the right bytes is what the program looks at first.
    def test_every_scheme_runs_both_operations_in_every_mode(self):
        for scheme in ("rs", "lrc", "ppr", "ecpipe", "triec"):
            for operation in ("encode", "decode"):
                (section,) = self.short("--scheme", scheme, "--k", 4, "--m", 2, "--op", operation,
                                        "--chunk", "128,40000", "--mode", ",".join(MODES))
                self.assertIn(operation, section["title"])
                self.assertEqual([(row["mode"], row["chunk_bytes"]) for row in section["rows"]],
                                 [(mode, size) for size in (128, 40000) for mode in MODES])
                for row in section["rows"]:
                    self.assertLessEqual(row["p50_ns"], row["p99_ns"])
                    self.assertEqual(len(row["rounds_ns"]), 2)

    def test_a_coherent_operation_needs_each_host_once(self):
        for argv, nodes in ((["--scheme", "rs"], 6), (["--scheme", "triec"], 6),
                            (["--scheme", "ppr", "--op", "decode"], 4),
                            (["--scheme", "ecpipe", "--op", "decode", "--slice", 64], 4)):
            rows = self.short(*argv, "--k", 3, "--m", 2, "--chunk", 1024)[0]["rows"]
            self.assertEqual(rows[1]["mode"], "coherent")
            self.assertEqual(rows[1]["interventions"], nodes, argv)
            self.assertGreater(rows[0]["interventions"], nodes, argv)

    # That each sent the right bytes is what the program looks at first.
    def test_ec_send_runs_beside_the_bare_encoding(self):
        section, = self.bench("ec-send", "--rounds", 2, "--milliseconds", 1, "--k", 3, "--m", 2,
                              "--chunk", "64,4k")
        self.assertIn("3 + 2 chunks", section["title"])
        for size in (64, 4096):
            rows = {row["what"]: row for row in section["rows"] if row["chunk_bytes"] == size}
            for what in ("ISA-L", "ISA-L, memcpy of all", "ec-send of parities, coherent",
                         "ec-send of all, incoherent"):
                self.assertGreater(rows[what]["time_ns"], 0)
                self.assertEqual(len(rows[what]["rounds_ns"]), 2)

    def test_primitives_run_alone(self):
        for primitive in ("ec-send", "recv-ec-send", "recv-ec"):
            (section,) = self.short("--primitive", primitive, "--k", 3, "--m", 2, "--chunk", 200)
            self.assertIn(f"{primitive} of 3 chunks, 2 outputs", section["title"])
            self.assertEqual(len(section["rows"]), 2)

    def test_the_links_between_processes_and_busy_hosts_are_measured_too(self):
        for link in ("shm", "tcp"):
            (section,) = self.short("--link", link, "--chunk", "1k")
            self.assertIn(f"{link} link, 6 nodes;", section["title"])
        (section,) = self.short("--busy", "--busy-slice", 5, "--chunk", 128)
        self.assertIn("hosts do other work", section["title"])

    def test_the_model_is_fitted_beside_the_table_of_the_paper(self):
        sections = self.short("--scheme", "triec", "--chunk", "128,16k", "--fit")
        self.assertEqual([row["mode"] for row in sections[1]["rows"]], ["incoherent", "coherent"])
        self.assertEqual([row["primitive"] for row in sections[2]["rows"]],
                         ["recv-ec-send", "recv-xor"])

    def test_a_wrong_command_line_is_named_and_ends_with_2(self):
        for argv, message in ((["--scheme", "raid"], "--scheme"),
                              (["--scheme", "rs", "--primitive", "ec-send"], "excludes"),
                              (["--primitive", "send"], "--primitive"),
                              (["--scheme", "lrc", "--k", 5, "--l", 2], "do not divide"),
                              (["--mode", "fast"], "--mode"),
                              (["--chunk", 0], "--chunk"),
                              (["--chunk", 128, "--fit"], "--fit"),
                              (["--link", "air"], "--link"),
                              (["--busy-slice", 0], "--busy-slice")):
            result = self.run_program(program("ring-bench"), "ec", *argv)
            self.assertEqual(result.returncode, 2, argv)
            self.assertIn(message, (result.stdout + result.stderr).decode())

    def test_losses_beyond_the_code_are_an_error(self):
        result = self.run_program(program("ring-bench"), "ec", "--op", "decode", "--losses", 3)
        self.assertEqual(result.returncode, 1)
        self.assertIn(b"cannot be computed from what is left", result.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
