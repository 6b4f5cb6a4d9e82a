"""Names of tests: how they are made, and that documents name those that there are. Part of
tools/tidy.py."""

import fnmatch
import re

TEST = re.compile(r"\b(?:TYPED_)?TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\s*\)")
# "X6ARetried", not "X6_ARetried": one of the two, so that a name can be looked for.
APART = re.compile(r"^[A-Z]+\d+_[A-Z]")
# `Suite.Name`, `Suite.Begin*`, with a program in front or not.
NAMED = re.compile(r"`(?:[\w/]+:)?(\w+)\.([\w*]+)`")


def check_test_names(files):
    """Findings of a tree, given as path -> text."""
    findings, suites = [], {}
    for path, text in files.items():
        if not path.startswith("tests/") or not path.endswith((".cc", ".h")):
            continue
        for match in TEST.finditer(text):
            suite, name = match.groups()
            suites.setdefault(suite, set()).add(name)
            if APART.match(name):
                line = text.count("\n", 0, match.start()) + 1
                findings.append(f"{path}:{line}: test {name}: write the rule and the rest together")
    for path, text in files.items():
        if not path.startswith("docs/") or not path.endswith(".md"):
            continue
        for match in NAMED.finditer(text):
            suite, pattern = match.groups()
            if suite not in suites and not suite.endswith("Test"):
                continue  # of something else
            if not fnmatch.filter(suites.get(suite, ()), pattern):
                line = text.count("\n", 0, match.start()) + 1
                findings.append(f"{path}:{line}: there is no test {suite}.{pattern}")
    return findings
