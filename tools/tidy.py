#!/usr/bin/env python3
"""The style rules that a machine can check.

Prints file:line: rule for each finding; exit status 1 when there is one.
"""

import re
import subprocess
import sys
from pathlib import Path

import check_test_names
import check_versions
import wrap_docs

LINE_MAX = 100
FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70

# (pattern, what to do instead, path prefixes or None for everywhere); matched against C++ code
# whose comments and literals are blanked.
BANNED = [
    (r"\bassert\s*\(", "assert() is off in release: use RING_CHECK", None),
    (r"\brand\s*\(", "rand() does not replay: use ring::Random", None),
    (r"\bu?sleep\s*\(", "a sleep hides a race: wait for the event", None),
    (r"\bstd::function\b", "std::function allocates: use a template or a function pointer",
     ("memgest/", "ring/coordinator/", "rdma/soft/")),
    (r"\babsl::Mutex\b", "Debian's absl::Mutex is not instrumented: use ring::Mutex", None),
    (r"\bstd::views\b", "clang 14 cannot compile std::views: write the loop", None),
    (r"#\s*include\s*<format>", "libstdc++ 12 has no <format>: use absl::StrFormat", None),
    (r"\bGTEST_SKIP\b", "a skipped test is no test", None),
    (r"\bDISABLED_", "a disabled test is no test", None),
]
# Sleeps with a time, in tests: a test that sleeps until something "must have happened" is slow, and
# wrong on a slow machine. These may, by file.
SLEEP = re.compile(r"\b(?:SleepFor|sleep_for|sleep_until|nanosleep)\s*\(")
SLEEP_ALLOWED = {
    "tests/api/client_link_test.cc": "lets both sides fall asleep; asserts nothing about when",
    "tests/chaos/faults.cc": "real processes: how long a fault lasts is the fault",
    "tests/chaos/view_watch.cc": "asks a real cluster for its view, again and again",
    "tests/support/await.h": "between two looks of a wait that has a deadline",
}
# Matched against whole lines, comments included. Split, so that this file passes its own rules.
BANNED_WORDS = [
    (r"\bNO" r"LINT", "fix it or change the rule"),
    (r"\b(TO" r"DO|FIX" r"ME|X" r"XX)\b", "do it now, or write it down where work is planned"),
]
# A section has a number only in somebody else's text: our documents have headings and rule ids.
SECTION = re.compile(r"\b[Ss]ections? \d")
SECTION_OF = re.compile(r"(?:\bRing,?|\bRFC \d+,?|\bpaper,? \(?|\bdissertation,?)\s*$")
# An absolute path of two folders and more: nobody else has it, unless it begins with one of these.
MACHINE_PATH = re.compile(r"(?<![\w.$}/~>*)\]%@+-])/([A-Za-z_][\w-]*)(?=/)")
COMMON_PATHS = frozenset((
    "bin", "boot", "dev", "etc", "lib", "opt", "proc", "run", "sbin", "sys", "tmp", "usr", "var",
    "nonexistent", "nowhere", "prefix",  # nobody has these
    "tools", "voters"))                  # tests put them behind a folder
# A commit: what follows that word, and what cannot be another one. Longer ones are other hashes.
COMMIT = re.compile(r"\bcommit\s+`?([0-9a-f]{7,40})\b|"
                    r"(?<![\w#./-])(?=\d*[a-f])(?=[a-f]*\d)([0-9a-f]{7,12})(?![\w./-])")
RECORDS = "docs/adr/"
RECORD_TEMPLATE = "0000-template.md"

CPP = (".h", ".cc")


def is_code(path, text):
    """By its name, or a program by its first line, as scripts without a suffix are."""
    return (path.endswith(CPP + (".py", ".cmake", ".proto", ".sh")) or
            path.endswith("CMakeLists.txt") or text.startswith("#!"))


_SKIP = re.compile(
    r'//(?:[^\n\\]|\\.|\\\n)*'                     # line comment
    r'|/\*.*?\*/'                                  # block comment
    r'|R"(?P<tag>[^()\s\\]{0,16})\(.*?\)(?P=tag)"'  # raw string
    r'|"(?:[^"\\\n]|\\.)*"'                        # string
    r"|(?<![0-9A-Za-z_])(?:u8|[uUL])?'(?:[^'\\\n]|\\.)+'",  # character, not a digit separator
    re.DOTALL)


def blank(text):
    """The text with comments and literals replaced by spaces; positions and lines stay."""
    def spaces(match):
        found = match.group(0)
        # The name of an included file is no literal.
        if found[0] == '"' and re.search(r"#\s*include\s*$", match.string[:match.start()][-40:]):
            return found
        return re.sub(r"[^\n]", " ", found)
    return _SKIP.sub(spaces, text)


def _blank_directives(code):
    return re.sub(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", lambda m: re.sub(r"[^\n]", " ", m.group(0)),
                  code, flags=re.MULTILINE | re.DOTALL)


def _match_braces(code):
    """Position of each '{' -> position of its '}'."""
    pairs, stack = {}, []
    for match in re.finditer(r"[{}]", code):
        if match.group(0) == "{":
            stack.append(match.start())
        elif stack:
            pairs[stack.pop()] = match.start()
    return pairs


# The head of a scope, not of a function that returns a `struct x`: it does not end with ')'.
_SCOPE = re.compile(r"^\s*(?:template\s*<.*>\s*)?(?:inline\s+)?(?:namespace\b|extern\s+$|"
                    r"(?:class|struct|union|enum)\b(?!.*\)\s*(?:const|noexcept|\s)*$))",
                    re.DOTALL)


def functions(text):
    """(first line, number of lines) of each function body with its signature; a heuristic."""
    code = _blank_directives(blank(text))
    pairs = _match_braces(code)
    found = []
    start = position = 0
    while True:
        match = re.search(r"[;{}]", code[position:])
        if not match:
            return found
        at = position + match.start()
        if code[at] != "{":
            start = position = at + 1
            continue
        head = re.sub(r"\b(?:public|private|protected)\s*:", lambda m: " " * len(m.group(0)),
                      code[start:at])
        end = pairs.get(at, len(code) - 1)
        if "(" not in head or _SCOPE.match(head):
            is_scope = re.search(r"\b(namespace|class|struct|union|extern)\b", head)
            # Into a namespace or class; over an enum or an initialiser.
            start = position = at + 1 if is_scope else end + 1
            continue
        if re.match(r"\s*[,{]", code[end + 1:]) and re.search(r"\)[^;{}]*:[^:]", head):
            position = end + 1  # a braced member initialiser: the body is still to come
            continue
        begin = start + len(head) - len(head.lstrip())
        first = code.count("\n", 0, begin) + 1
        found.append((first, code.count("\n", 0, end) + 2 - first))
        start = position = end + 1


def guard_of(path):
    name = re.sub(r"[^A-Za-z0-9]", "_", path).upper() + "_"
    return name if name.startswith("RING_") else "RING_" + name


def check_header(path, text):
    findings = []
    lines = text.splitlines()
    for key in ("What:", "Threads:", "Errors:"):
        if not any(re.match(rf"// {key}\s+\S", line) for line in lines[:40]):
            findings.append(f"{path}:1: the header comment has no '// {key}' line")
    guard = guard_of(path)
    directives = [(n, line.split()) for n, line in enumerate(lines, 1) if line.startswith("#")]
    opening = [words[:2] for _, words in directives[:2]]
    if opening != [["#ifndef", guard], ["#define", guard]]:
        where = directives[0][0] if directives else 1
        findings.append(f"{path}:{where}: the include guard must be {guard}")
    elif lines[-1] != f"#endif  // {guard}":
        findings.append(f"{path}:{len(lines)}: the last line must be '#endif  // {guard}'")
    return findings


def check_cpp(path, text):
    findings = []
    for number, line in enumerate(blank(text).splitlines(), 1):
        for pattern, advice, prefixes in BANNED:
            if (prefixes is None or path.startswith(prefixes)) and re.search(pattern, line):
                findings.append(f"{path}:{number}: {advice}")
        if path.startswith("tests/") and path not in SLEEP_ALLOWED and SLEEP.search(line):
            findings.append(f"{path}:{number}: a sleep hides a race: wait for the event")
    for first, count in functions(text):
        if count > FUNCTION_LINES_MAX:
            findings.append(f"{path}:{first}: function of {count} lines, "
                            f"at most {FUNCTION_LINES_MAX}")
    if path.endswith(".h"):
        findings += check_header(path, text)
    return findings


def check_own_header(files):
    """A source file includes the header of its name first: that compiles it alone."""
    findings = []
    for path, text in files.items():
        header = path[:-len(".cc")] + ".h"
        if not path.endswith(".cc") or header not in files:
            continue
        first = re.search(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"]+)', text, re.MULTILINE)
        if not first or first.group(1) != header:
            line = text.count("\n", 0, first.start()) + 1 if first else 1
            findings.append(f"{path}:{line}: the first include must be {header}")
    return findings


def check_opening(files):
    """Outside of tests, a source file without a header of its own says first what it is for."""
    return [f"{path}:1: no own header, so it must begin with a comment: what is it for?"
            for path, text in files.items()
            if path.endswith(".cc") and not path.startswith("tests/") and
            path[:-len(".cc")] + ".h" not in files and
            not text.startswith("//")]


def check_markdown(path, text):
    titles, fenced = [], False
    for number, line in enumerate(text.splitlines(), 1):
        if re.match(r"\s*(```|~~~)", line):
            fenced = not fenced
        elif not fenced and re.match(r"# ", line):
            titles.append(number)
    findings = [f"{path}:{number}: prose of over {wrap_docs.PROSE_MAX} columns: "
                f"tools/check --fix wraps it" for number in wrap_docs.too_long_lines(text)]
    if len(titles) != 1:
        findings.append(f"{path}:{titles[1] if titles else 1}: one '# ' title per document, "
                        f"not {len(titles)}")
    return findings


def check_records(files):
    """The table of decision records has each record by the title that it gives itself."""
    table = files.get(RECORDS + "README.md")
    if table is None:
        return []
    rows = {match.group(1): (table.count("\n", 0, match.start()) + 1, match.group(2))
            for match in re.finditer(r"^\| \[\d{4}\]\(([^)]+)\) \| (.*) \|$", table, re.MULTILINE)}
    findings = [f"{RECORDS}README.md:{line}: there is no {name}"
                for name, (line, _) in rows.items() if RECORDS + name not in files]
    for path, text in files.items():
        name = path[len(RECORDS):]
        if not path.startswith(RECORDS) or name in ("README.md", RECORD_TEMPLATE):
            continue
        title = f"# {name[:4]}: {rows.get(name, (0, ''))[1]}"
        if name not in rows:
            findings.append(f"{path}:1: {RECORDS}README.md has no row of this record")
        elif text.split("\n", 1)[0] != title:
            findings.append(f"{RECORDS}README.md:{rows[name][0]}: {name} has another title")
    return findings


def check_commits(files, history):
    """Documents name commits that the history, a list of hashes, has."""
    findings = []
    for path, text in files.items():
        for match in COMMIT.finditer(text) if path.endswith(".md") else ():
            name = match.group(1) or match.group(2)
            if not any(commit.startswith(name) for commit in history):
                findings.append(f"{path}:{text.count(chr(10), 0, match.start()) + 1}: "
                                f"no commit {name} is in the history")
    return findings


def history_of(root):
    """Every commit up to this one; None where not all of them are known."""
    def git(*words):
        done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True)
        return done.stdout.split() if done.returncode == 0 else None
    whole = git("rev-parse", "--is-shallow-repository") == ["false"]
    return git("rev-list", "HEAD") if whole else None


def check_text(path, text):
    """The findings of one file by itself."""
    findings = []
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        findings += [f"{path}:{number}: /{match.group(1)}/ is a path of one machine"
                     for match in MACHINE_PATH.finditer(line)
                     if match.group(1) not in COMMON_PATHS and not path.endswith(".gitignore")]
        if not is_code(path, text):
            continue
        if len(line) > LINE_MAX:
            findings.append(f"{path}:{number}: line of {len(line)} columns, at most {LINE_MAX}")
        for match in SECTION.finditer(line):
            if not SECTION_OF.search(line[:match.start()]):
                findings.append(f"{path}:{number}: {match.group(0)} of what? name a rule "
                                f"(docs/RULES.md) or the heading of a document")
        for pattern, advice in BANNED_WORDS:
            word = re.search(pattern, line)
            if word:
                findings.append(f"{path}:{number}: {word.group(0)}: {advice}")
    is_program = path.endswith(CPP + (".py",)) or text.startswith("#!")
    if is_program and len(lines) > FILE_LINES_MAX:
        findings.append(f"{path}:{len(lines)}: file of {len(lines)} lines, "
                        f"at most {FILE_LINES_MAX}")
    if path.endswith(CPP):
        findings += check_cpp(path, text)
    if path.endswith(".md"):
        findings += check_markdown(path, text)
    return findings


def check_targets(sources, lists):
    """Each .cc file is named by a CMakeLists.txt at or above its folder.

    `lists` maps the folder of each CMakeLists.txt ("" is the root) to its text. A file also counts
    as named by its stem where the list builds file names from a variable: foreach(x a b) ${x}.cc.
    """
    tokens = {}
    for folder, text in lists.items():
        text = re.sub(r"#.*", "", text).replace("${CMAKE_CURRENT_SOURCE_DIR}/", "")
        tokens[folder] = set(re.split(r'[\s()"]+', text))
    findings = []
    for path in sources:
        if not path.endswith(".cc"):
            continue
        for folder, words in tokens.items():
            if folder and not path.startswith(folder + "/"):
                continue
            inside = path[len(folder) + 1:] if folder else path
            if inside in words:
                break
            made = {re.sub(r"\$\{\w+\}", "*", word) for word in words if "${" in word}
            stems = [word for word in words if word and word in inside]
            if any(mask.replace("*", stem) == inside for mask in made for stem in stems):
                break
        else:
            findings.append(f"{path}:1: no CMake target builds this file")
    return findings


MUTANT_TABLE = "tools/ring-sim/mutant_cases.cc"  # and its parts, mutant_cases_*.cc
# The switches of rules 10.1 and on, which the consensus alone runs.
CONSENSUS_MUTANTS = "tests/consensus/sim/mutants_test.cc"
PRODUCT = ("api/", "consensus/", "ec_offload/", "memgest/", "rdma/", "ring/", "srs/")


def check_mutants(files):
    """Each bug switch has a row in ring-sim's table, and each row a switch.

    A row of a pair, "A+B", needs both. Those of the consensus, P101 and on, are in the list of its
    own tests instead.
    """
    tables = {path: text for path, text in files.items()
              if path.startswith(MUTANT_TABLE.removesuffix(".cc")) and path.endswith(".cc")}
    if not tables:
        return []
    switches = {}
    for path, text in files.items():
        if path.endswith(CPP) and path.startswith(PRODUCT):
            for match in re.finditer(r"\bMutant\(([^()]*)\)", text):
                for name in re.findall(r'"([\w-]+)"', match.group(1)):
                    switches.setdefault(name, f"{path}:{text.count(chr(10), 0, match.start()) + 1}")
    rows = {}
    for path, text in tables.items():
        table = text.partition("kCases[] = {")[2].partition("\n};")[0]
        rows.update({row: path for row in re.findall(r'^\s*\{"([^"]+)"', table, re.MULTILINE)})
    own = files.get(CONSENSUS_MUTANTS, "").partition("kMutants[] = {")[2].partition("\n};")[0]
    rows.update({row: CONSENSUS_MUTANTS for row in re.findall(r'"([^"]+)"', own)})
    home = {True: CONSENSUS_MUTANTS, False: MUTANT_TABLE}
    findings = [f"{where}: bug switch {name} has no row in {home[bool(re.match('P1[0-9]', name))]}"
                for name, where in switches.items() if name not in rows]
    for row, where in rows.items():
        if row != "none" and not all(name in switches for name in row.split("+")):
            findings.append(f"{where}:1: no switch {row} is in the code")
    return findings


def check_tree(files):
    """The findings of a tree, given as path -> text."""
    findings = []
    for path, text in files.items():
        findings += check_text(path, text)
    lists = {path[:-len("/CMakeLists.txt")] if "/" in path else "": text
             for path, text in files.items() if path.split("/")[-1] == "CMakeLists.txt"}
    return (findings + check_own_header(files) + check_opening(files) +
            check_targets(list(files), lists) + check_mutants(files) + check_records(files) +
            check_versions.check_versions(files) + check_test_names.check_test_names(files))


def main():
    root = Path(__file__).resolve().parent.parent
    names = subprocess.run(["git", "ls-files", "-z"], cwd=root, check=True, capture_output=True,
                           text=True).stdout.split("\0")
    files = {}
    for name in names:
        if not name or not (root / name).is_file():
            continue
        try:
            files[name] = (root / name).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # a fuzz seed or a picture
    findings = check_tree(files)
    history = history_of(root)
    if history is not None:
        findings += check_commits(files, history)
    print("".join(f"{finding}\n" for finding in findings), end="")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
