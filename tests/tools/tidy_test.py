"""Tests of tools/tidy.py."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import check_test_names
import check_versions
import tidy  # noqa: E402

HEADER = """// srs/layout.h — where bytes are.
//
// What:      Layout.
// Threads:   pure.
// Errors:    none.
#ifndef RING_SRS_LAYOUT_H_
#define RING_SRS_LAYOUT_H_

#endif  // RING_SRS_LAYOUT_H_
"""


def body(lines):
    return "{\n" + "  f();\n" * (lines - 2) + "}\n"


class Blank(unittest.TestCase):
    def test_comments_and_literals_go_and_lines_stay(self):
        text = 'a("rand()"); // rand()\n/* rand()\n */ b(\'{\'); R"x(rand()\n)x";\n'
        blanked = tidy.blank(text)
        self.assertNotIn("rand", blanked)
        self.assertNotIn("{", blanked)
        self.assertEqual(blanked.count("\n"), text.count("\n"))
        self.assertEqual(len(blanked), len(text))

    def test_digit_separators_are_not_characters(self):
        self.assertEqual(tidy.blank("x = 1'000 + rand() + 2'000;"),
                         "x = 1'000 + rand() + 2'000;")

    def test_an_escaped_quote_does_not_end_a_string(self):
        self.assertIn("g();", tidy.blank('f("a\\"b"); g();'))


class Functions(unittest.TestCase):
    def lengths(self, text):
        return [count for _, count in tidy.functions(text)]

    def test_free_functions_in_namespaces_are_measured_with_their_signature(self):
        text = "namespace ring {\nnamespace {\nint f(int a,\n      int b) " + body(10) + "}\n}\n"
        self.assertEqual(tidy.functions(text), [(3, 11)])

    def test_methods_in_a_class_are_measured_apart(self):
        text = ("class A final : public B {\n public:\n  A() : a_{1}, b_(2) {}\n"
                "  int f() const override " + body(5) + "  int g_ = 3;\n};\n")
        self.assertEqual(self.lengths(text), [1, 5])

    def test_a_braced_member_initialiser_is_not_the_body(self):
        self.assertEqual(self.lengths("A::A(int x) : x_{x}, y_{2} " + body(6)), [6])

    def test_a_test_case_is_a_function(self):
        self.assertEqual(self.lengths("TEST(A, B) " + body(80)), [80])

    def test_nested_blocks_and_lambdas_belong_to_their_function(self):
        text = "void f() {\n  if (a) {\n  }\n  auto g = [] { return 1; };\n}\n"
        self.assertEqual(self.lengths(text), [5])

    def test_tables_enums_and_structs_are_no_functions(self):
        text = ("constexpr int kTable[] = {\n1,\n2};\nenum class E {\n kA,\n};\n"
                "struct S {\n  int a = 0;\n};\nusing F = int;\n")
        self.assertEqual(self.lengths(text), [])

    def test_macros_do_not_unbalance(self):
        self.assertEqual(self.lengths("#define OPEN \\\n  {\nvoid f() " + body(3)), [3])

    def test_a_function_over_the_limit_is_found_at_its_first_line(self):
        self.assertEqual(tidy.check_cpp("srs/a.cc", "\nvoid f() " + body(70)), [])
        self.assertEqual(tidy.check_cpp("srs/a.cc", "\nvoid f() " + body(71)),
                         ["srs/a.cc:2: function of 71 lines, at most 70"])


class Banned(unittest.TestCase):
    def count(self, path, line):
        return len(tidy.check_text(path, line + "\n"))

    def test_banned_calls_are_found(self):
        for line in ("assert(x);", "int a = rand();", "sleep(1);", "::usleep(5);",
                     "absl::Mutex mu;", "auto v = std::views::all(x);", "#include <format>",
                     "GTEST_SKIP() << 1;", "TEST(A, DISABLED_b);"):
            self.assertEqual(self.count("tests/a.cc", line), 1, line)

    def test_names_that_only_look_alike_pass(self):
        for line in ("static_assert(sizeof(int) == 4);", "operand(x);", "my_assert(x);",
                     "// assert(x), rand() and sleep(1) are banned", 'Log("sleep(1)");',
                     "state.sleeping();"):
            self.assertEqual(self.count("tests/a.cc", line), 0, line)

    def test_std_function_is_banned_on_the_hot_path_only(self):
        line = "std::function<void()> f;"
        for path in ("memgest/a.cc", "ring/coordinator/put.cc", "rdma/soft/nic.cc"):
            self.assertEqual(self.count(path, line), 1, path)
        self.assertEqual(self.count("tools/bench.cc", line), 0)

    def test_a_test_sleeps_only_where_the_list_says_why(self):
        for line in ("absl::SleepFor(t);", "std::this_thread::sleep_for(t);",
                     "sleep_until(t);", "nanosleep(&a, &b);"):
            self.assertEqual(self.count("tests/a.cc", line), 1, line)
            self.assertEqual(self.count("tools/a.cc", line), 0, line)
            self.assertEqual(self.count(next(iter(tidy.SLEEP_ALLOWED)), line), 0, line)
        self.assertEqual(self.count("tests/a.cc", "// SleepFor(t) hides a race"), 0)

    def test_words_are_banned_in_comments_too(self):
        for word in ("TO" + "DO", "FIX" + "ME", "X" + "XX", "NO" + "LINT(x)",
                     "NO" + "LINTNEXTLINE"):
            self.assertEqual(self.count("srs/a.cc", "// " + word + ": later"), 1, word)
        self.assertEqual(self.count("README.md", "# A\nTO" + "DO"), 0)

    def test_a_numbered_section_is_one_of_another_text(self):
        for line in ("// Source:    protocol rules sec" "tion 5, step 2", "# hot path sec" "tion 3",
                     "// Ring sec" "tion 5; sec" "tion 0 (f)", "// Sec" "tion 8: lost"):
            self.assertEqual(self.count("ring/a.cc", line), 1, line)
        for line in ("// Ring section 5.2; rule S1", "// RFC 6750 section 2.1",
                     '"the paper, section 6.4: serves"', "// the Ring paper (section 6.1)",
                     "// Raft's dissertation, section 3.6", "// in sections"):
            self.assertEqual(self.count("ring/a.cc", line), 0, line)

    def test_a_path_of_this_machine_is_found_in_any_file(self):
        for path in ("docs/a.md", "srs/a.cc", "data.json"):
            for root in ("wo" + "rk", "home", "mnt"):
                for before in ("# see ", "`", "shm:", "file=", '"'):
                    findings = tidy.check_text(path, f"# t {before}/{root}/main\n")
                    self.assertEqual(len([f for f in findings if "one machine" in f]), 1, findings)
        for text in ("build/wo" + "rk/x", "/usr/lib/x", "$HOME/a/b", "${folder}/a/b", "../a/b",
                     "https://a/b/c", "(/tmp/ring/x)", "either/or/both", "~/a/b", "a /b"):
            self.assertEqual(tidy.check_text("a.sh", text + "\n"), [], text)
        self.assertEqual(tidy.check_text(".gitignore", "/out" + "/\n"), [])


class Sizes(unittest.TestCase):
    def test_columns_are_characters_not_bytes(self):
        self.assertEqual(tidy.check_text("srs/a.cc", "// " + "é" * 97 + "\n"), [])
        self.assertEqual(tidy.check_text("srs/a.cc", "// " + "é" * 98 + "\n"),
                         ["srs/a.cc:1: line of 101 columns, at most 100"])

    def test_a_program_without_a_suffix_is_code_by_its_first_line(self):
        long = "# " + "x" * 99 + "\n"
        self.assertEqual(tidy.check_text("tools/run", "#!/bin/bash\n" + long),
                         ["tools/run:2: line of 101 columns, at most 100"])
        self.assertEqual(tidy.check_text("tests/fuzz/corpus/seed", long), [])
        self.assertEqual(len(tidy.check_text("tools/run", "#!/bin/bash\n" + "x\n" * 500)), 1)

    def test_files_have_at_most_500_lines(self):
        self.assertEqual(tidy.check_text("srs/a.cc", "int a;\n" * 500), [])
        self.assertEqual(len(tidy.check_text("srs/a.cc", "int a;\n" * 501)), 1)


class Headers(unittest.TestCase):
    def test_a_good_header_passes(self):
        self.assertEqual(tidy.check_text("srs/layout.h", HEADER), [])

    def test_what_threads_and_errors_each_begin_a_line(self):
        for key in ("What:", "Threads:", "Errors:"):
            self.assertEqual(tidy.check_text("srs/layout.h", HEADER.replace(key, "T:")),
                             [f"srs/layout.h:1: the header comment has no '// {key}' line"])
        reflowed = HEADER.replace("Layout.\n// Threads:", "Layout. Threads:")
        self.assertEqual(len(tidy.check_text("srs/layout.h", reflowed)), 1)

    def test_the_guard_follows_the_path(self):
        self.assertEqual(tidy.guard_of("ring/base/log.h"), "RING_BASE_LOG_H_")
        self.assertEqual(tidy.guard_of("rdma/soft/nic.h"), "RING_RDMA_SOFT_NIC_H_")
        self.assertEqual(len(tidy.check_text("srs/plan.h", HEADER)), 1)
        torn = HEADER.replace("#endif  //", "#endif /")
        self.assertEqual(len(tidy.check_text("srs/layout.h", torn)), 1)


class OwnHeader(unittest.TestCase):
    def test_it_is_included_first(self):
        files = {"srs/layout.h": HEADER, "srs/plan.cc": "#include <map>\n"}
        for text in ('// Why.\n#include "srs/layout.h"\n\n#include <map>\n',
                     '#  include "srs/layout.h"\n'):
            self.assertEqual(tidy.check_own_header({**files, "srs/layout.cc": text}), [])
        for text in ('\n#include <map>\n#include "srs/layout.h"\n', "int a;\n"):
            self.assertEqual(len(tidy.check_own_header({**files, "srs/layout.cc": text})), 1)


class Opening(unittest.TestCase):
    def test_a_source_file_without_a_header_says_what_it_is_for(self):
        self.assertEqual(tidy.check_opening({"tools/x/get.cc": "#include <map>\n"}), [
            "tools/x/get.cc:1: no own header, so it must begin with a comment: what is it for?"])
        self.assertEqual(tidy.check_opening({"tools/x/get.cc": "// x get: prints.\n"}), [])

    def test_a_header_says_it_for_its_source_file_and_a_test_is_named_after_what_it_tests(self):
        self.assertEqual(tidy.check_opening({"srs/a.h": HEADER, "srs/a.cc": "int a;\n",
                                             "tests/srs/a_test.cc": "int a;\n"}), [])


class Markdown(unittest.TestCase):
    def test_one_title_per_document(self):
        self.assertEqual(tidy.check_text("a.md", "# A\n\n## B\n"), [])
        self.assertEqual(tidy.check_text("a.md", "# A\n# B\n"),
                         ["a.md:2: one '# ' title per document, not 2"])
        self.assertEqual(len(tidy.check_text("a.md", "no title\n")), 1)

    def test_a_comment_in_a_code_block_is_no_title(self):
        self.assertEqual(tidy.check_text("a.md", "# A\n```\n# build\n```\n"), [])

    def test_prose_of_over_120_columns_is_found_and_wrapped(self):
        words = "word " * 30 + "- end"
        text = f"# A\n\n{words}\n\n* {words}\n  goes on\n"
        self.assertEqual([finding.split(": ")[0] for finding in tidy.check_text("a.md", text)],
                         ["a.md:3", "a.md:5"])
        wrapped = tidy.wrap_docs.wrap(text)
        self.assertEqual(tidy.check_text("a.md", wrapped), [])
        self.assertEqual(wrapped.split(), text.split())
        paragraph, item = wrapped.split("\n\n")[1:]
        self.assertEqual(len(paragraph.splitlines()), 2)
        self.assertTrue(all(line.startswith("  ") for line in item.splitlines()[1:]))

    def test_no_line_is_wrapped_into_an_item(self):
        text = "# A\n\n" + "x" * 118 + " - and on\n"
        self.assertEqual(tidy.wrap_docs.wrap(text), "# A\n\n" + "x" * 118 + " -\nand on\n")

    def test_tables_code_and_links_may_be_wider(self):
        wide = "x " * 70
        link = "<https://" + "x" * 120 + ">"
        text = f"# A\n\n| {wide} |\n|---|\n\n```\n{wide}\n```\n\n{link}\n"
        self.assertEqual(tidy.check_text("a.md", text), [])
        self.assertEqual(tidy.wrap_docs.wrap(text), text)


class Targets(unittest.TestCase):
    def test_a_source_file_outside_every_target_is_found(self):
        lists = {"": "add_subdirectory(srs)", "srs": "ring_library(srs SRCS layout.cc)"}
        self.assertEqual(tidy.check_targets(["srs/layout.cc", "srs/plan.cc", "srs/x.h"], lists),
                         ["srs/plan.cc:1: no CMake target builds this file"])

    def test_a_list_above_may_name_it_by_path(self):
        lists = {"rdma": "ring_library(rdma SRCS soft/nic.cc)"}
        self.assertEqual(tidy.check_targets(["rdma/soft/nic.cc"], lists), [])

    def test_a_commented_line_does_not_build_it(self):
        self.assertEqual(len(tidy.check_targets(["srs/a.cc"], {"srs": "# a.cc\n"})), 1)

    def test_names_made_from_a_loop_count(self):
        lists = {"tests/bench": "foreach(b encode)\n add_executable(${b} ${b}_bench.cc)\n"}
        self.assertEqual(tidy.check_targets(["tests/bench/encode_bench.cc"], lists), [])
        self.assertEqual(len(tidy.check_targets(["tests/bench/other_bench.cc"], lists)), 1)


class Versions(unittest.TestCase):
    ROWS = [("docs/P.md", "| 4 | 2 | protocol version ", "a.h", "kProtocolVersion")]

    def count(self, document, source="inline constexpr int kProtocolVersion = 15;\n"):
        files = {"docs/P.md": document, "a.h": source}
        return len(check_versions.check_versions(files, self.ROWS))

    def test_a_document_names_the_version_of_the_code(self):
        self.assertEqual(self.count("| 4 | 2 | protocol version 15 |\n"), 0)
        self.assertEqual(self.count("| 4 | 2 | protocol\nversion 15 |\n"), 0)
        self.assertEqual(self.count("| 4 | 2 | protocol version 14 |\n"), 1)
        self.assertEqual(self.count("| 4 | 2 | protocol version 15 |\n", "// moved\n"), 1)

    def test_each_version_that_is_named_has_one_row(self):
        text = "| 4 | 2 | protocol version 15 |\n"
        self.assertEqual(self.count(text + "u8 version 3\n"), 1)
        self.assertEqual(self.count("nothing\n"), 1)
        self.assertEqual(self.count(text + text), 3)  # none of them is told apart

    def test_a_tree_without_the_documents_has_none(self):
        self.assertEqual(check_versions.check_versions({"a.h": ""}, self.ROWS), [])


class TestNames(unittest.TestCase):
    def findings(self, document, name="X6ARetryIsOne"):
        return check_test_names.check_test_names(
            {"docs/P.md": document, "tests/a_test.cc": f"TEST_F(Suite, {name}) {{\n}}\n"})

    def test_a_document_names_tests_that_there_are(self):
        for named in ("`Suite.X6ARetryIsOne`", "`Suite.X6*`", "`a/a_test:Suite.*`",
                      "`Other.X6*`", "Suite.None"):
            self.assertEqual(self.findings(named), [], named)
        for named in ("`Suite.X7*`", "`Suite.X6`", "`GoneTest.X6*`"):
            self.assertEqual(len(self.findings(f"text\n{named}\n")), 1, named)
        self.assertTrue(self.findings("text\n`Suite.X7*`\n")[0].startswith("docs/P.md:2: "))

    def test_a_rule_and_what_it_asks_for_are_one_word(self):
        self.assertEqual(len(self.findings("", "X6_ARetryIsOne")), 1)
        self.assertEqual(self.findings("", "R10_6AndWords"), [])


class Records(unittest.TestCase):
    def findings(self, rows, **records):
        files = {tidy.RECORDS + "README.md": "# Records\n\n" + rows}
        files.update({f"{tidy.RECORDS}{name}.md": text for name, text in records.items()})
        return tidy.check_records(files)

    def test_a_row_has_the_title_of_its_record(self):
        row = "| [0001](0001.md) | files are TOML |\n"
        self.assertEqual(self.findings(row, **{"0001": "# 0001: files are TOML\n\nText\n"}), [])
        self.assertEqual(len(self.findings(row, **{"0001": "# 0001: files are YAML\n"})), 1)

    def test_each_record_has_a_row_and_each_row_a_record(self):
        self.assertEqual(len(self.findings("", **{"0001": "# 0001: files are TOML\n"})), 1)
        self.assertEqual(len(self.findings("| [0001](0001.md) | files are TOML |\n")), 1)
        self.assertEqual(self.findings("| 0017 | never used |\n"), [])

    def test_the_template_is_no_record(self):
        self.assertEqual(self.findings("| [0000](0000-template.md) | the template |\n",
                                       **{"0000-template": "# 0000: as a sentence\n"}), [])


class Commits(unittest.TestCase):
    HISTORY = ["8c82ebc0" + "0" * 32, "19935470" + "0" * 32]

    def count(self, text, path="docs/a.md"):
        return len(tidy.check_commits({path: text}, self.HISTORY))

    def test_a_commit_that_is_named_is_in_the_history(self):
        for text in ("on 8c82ebc", "commit 1993547: x", "(commit `8c82ebc`)", "commit\n8c82ebc0"):
            self.assertEqual(self.count(text), 0, text)
        for text in ("on 8c82ebd", "commit 1993548", "the change d3522de as", "commit\n8c82ebc1"):
            self.assertEqual(self.count(text), 1, text)

    def test_other_numbers_and_hashes_are_none(self):
        for text in ("1000000 operations", "0x52494e4c", "hash ee50dfe0897fda8c", "defaced",
                     "a/8c82ebd/b", "commit 12 of them", "committed 1000000"):
            self.assertEqual(self.count(text), 0, text)
        self.assertEqual(self.count("on 8c82ebd", "a.cc"), 0)


class Mutants(unittest.TestCase):
    TABLE = 'constexpr MutantCase kCases[] = {\n    {"none", "x"},\n    {"V1", "x"},\n%s};\n'

    def findings(self, code, rows=""):
        return tidy.check_mutants({"ring/a.cc": code, tidy.MUTANT_TABLE: self.TABLE % rows})

    def test_switches_and_rows_agree(self):
        self.assertEqual(self.findings('if (Mutant("V1")) f();\n'), [])
        self.assertEqual(self.findings('Mutant(late ? "V1" : "V2");', '    {"V2", "y"},\n'), [])

    def test_a_switch_without_a_row_is_found(self):
        self.assertEqual(self.findings('Mutant("V1");\nMutant("V2");\n'),
                         ["ring/a.cc:2: bug switch V2 has no row in " + tidy.MUTANT_TABLE])

    def test_every_folder_of_the_product_is_looked_at(self):
        for folder in ("api", "consensus", "memgest", "rdma/soft", "srs"):
            files = {"ring/a.cc": 'Mutant("V1");', f"{folder}/b.cc": 'Mutant("V2");',
                     tidy.MUTANT_TABLE: self.TABLE % ""}
            self.assertEqual(len(tidy.check_mutants(files)), 1, folder)

    def test_switches_of_the_consensus_are_in_the_list_of_its_tests(self):
        files = {"ring/a.cc": 'Mutant("V1");', "consensus/b.cc": 'Mutant("P101Late");',
                 tidy.MUTANT_TABLE: self.TABLE % "", tidy.CONSENSUS_MUTANTS: ""}
        self.assertEqual(tidy.check_mutants(files), [
            "consensus/b.cc:1: bug switch P101Late has no row in " + tidy.CONSENSUS_MUTANTS])
        files[tidy.CONSENSUS_MUTANTS] = 'kMutants[] = {\n    "P101Late",\n};'
        self.assertEqual(tidy.check_mutants(files), [])
        files[tidy.CONSENSUS_MUTANTS] = 'kMutants[] = {\n    "P101Late",\n    "P102Early",\n};'
        self.assertEqual(len(tidy.check_mutants(files)), 1)

    def test_a_row_without_a_switch_is_found(self):
        self.assertEqual(len(self.findings("")), 1)
        self.assertEqual(len(self.findings('Mutant("V1");', '    {"V1+V2", "y"},\n')), 1)


if __name__ == "__main__":
    unittest.main()
