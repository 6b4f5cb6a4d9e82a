#!/usr/bin/env python3
"""Wraps the prose of documents at 120 columns.

Paragraphs and list items with a longer line are filled anew; tables, fenced code, headings and
single words such as links stay as they are. Without arguments: every document of the repository.
"""

import re
import subprocess
import sys
from pathlib import Path

PROSE_MAX = 120
FENCE = re.compile(r"\s*(```|~~~)")
ITEM = re.compile(r"(\s*)([*+-]|\d+\.)( +)")
NO_PROSE = re.compile(r"\s*(\||#|<|>|\[[^\]]+\]:)|\s{4,}\S|\s*$")
# A line that began so would be something else: an item, a heading, a table, a quotation.
SPECIAL = re.compile(r"([*+-]|\d+[.)]|#+|>|\||=+|-+)$")


def is_too_long(line):
    return len(line) > PROSE_MAX and " " in line.strip()


def blocks(lines):
    """(is prose, first line, end) of each piece: a paragraph, an item, or anything else."""
    fenced, item, i = False, False, 0
    while i < len(lines):
        begin = i
        i += 1
        if FENCE.match(lines[begin]):
            fenced = not fenced
        is_item = not fenced and ITEM.match(lines[begin])
        if fenced or FENCE.match(lines[begin]) or (NO_PROSE.match(lines[begin]) and not is_item):
            yield False, begin, i
            continue
        while i < len(lines) and not (FENCE.match(lines[i]) or ITEM.match(lines[i]) or
                                      re.match(r"\s*(\||#|<|>|$)", lines[i])):
            i += 1
        yield True, begin, i


def fill(lines):
    item = ITEM.match(lines[0])
    first = item.group(0) if item else re.match(r"\s*", lines[0]).group(0)
    indent = " " * len(first) if item else first
    words = " ".join([lines[0][len(first):]] + [line.strip() for line in lines[1:]]).split(" ")
    filled, line = [], first + words[0]
    for word in words[1:]:
        if len(line) + 1 + len(word) <= PROSE_MAX or SPECIAL.match(word):
            line += " " + word
        else:
            filled.append(line)
            line = indent + word
    return filled + [line]


def wrap(text):
    lines = text.split("\n")
    result = []
    for is_prose, begin, end in blocks(lines):
        piece = lines[begin:end]
        result += fill(piece) if is_prose and any(map(is_too_long, piece)) else piece
    return "\n".join(result)


def too_long_lines(text):
    lines = text.split("\n")
    return [number + 1 for is_prose, begin, end in blocks(lines) if is_prose
            for number in range(begin, end) if is_too_long(lines[number])]


def main():
    root = Path(__file__).resolve().parent.parent
    names = sys.argv[1:] or subprocess.run(
        ["git", "ls-files", "*.md"], cwd=root, check=True, capture_output=True,
        text=True).stdout.split()
    for name in names:
        path = root / name
        if not path.is_file():
            continue
        text = path.read_text(encoding="utf-8")
        if wrap(text) != text:
            path.write_text(wrap(text), encoding="utf-8")
            print(f"wrapped {name}")


if __name__ == "__main__":
    main()
