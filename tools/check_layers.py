#!/usr/bin/env python3
"""Who may include whom: docs/ARCHITECTURE.md's layer table, kept here as data and checked.

Prints file:line: rule for each finding; exit status 1 when there is one.
"""

import re
import subprocess
import sys
from pathlib import Path

# layer -> the layers it may include besides itself and BASE. A layer is a path prefix that ends at
# a '/', '_' or '.', and the longest one that fits a path wins: "api/admin" takes api/admin_x.cc.
ANY = None
BASE = "ring/base"
LAYERS = {
    BASE: set(),
    "ring/protocol": set(),
    "rdma": set(),
    "consensus": set(),
    "consensus/file": {"consensus"},
    "ec_offload": {"rdma"},
    "ec_offload/eco": {"ec_offload", "ec_offload/verbs_exp", "rdma"},
    "ec_offload/verbs_exp": {"ec_offload", "rdma"},
    "srs": {"ec_offload"},
    "memgest": {"ring/protocol", "rdma", "ec_offload", "srs"},
    "ring/cluster": {"ring/protocol", "consensus"},
    "ring/coordinator": {"ring/protocol", "ring/cluster", "rdma", "memgest"},
    "ring/recovery": {"ring/protocol", "ring/cluster", "rdma", "memgest", "srs", "ec_offload"},
    "ring/node": {"ring/protocol", "rdma", "consensus", "consensus/file", "ec_offload", "srs",
                  "memgest", "ring/cluster", "ring/coordinator", "ring/recovery"},
    "api": {"ring/protocol", "ring/cluster", "rdma"},
    "api/admin": {"ring/protocol", "ring/cluster", "ring/node"},
    "tools": ANY,
    "tests": ANY,
}

# The core has no threads, wall clock, random device, sockets or devices: they come from outside.
CORE = {"memgest", "ring/coordinator", "ring/recovery", "ring/cluster", "consensus", "srs"}
CORE_BANNED = re.compile(
    r"(thread|mutex|condition_variable|chrono|random|iostream|sys/.*|infiniband/.*|grpc.*)$")

INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)')


def layer_of(path, layers=LAYERS):
    """The layer of a path, or None when it is in no layer."""
    best = None
    for layer in layers:
        if path.startswith(layer) and path[len(layer):len(layer) + 1] in ("/", "_", "."):
            if best is None or len(layer) > len(best):
                best = layer
    return best


def find_cycle(layers=LAYERS):
    """The layers of a cycle of the table, first again at the end; None when there is none."""
    done, trail = set(), []

    def visit(layer):
        if layer in trail:
            return trail[trail.index(layer):] + [layer]
        if layer in done:
            return None
        trail.append(layer)
        for lower in sorted(layers.get(layer) or ()):
            cycle = visit(lower)
            if cycle:
                return cycle
        trail.pop()
        done.add(layer)
        return None

    for layer in layers:
        cycle = visit(layer)
        if cycle:
            return cycle
    return None


def table_errors(layers=LAYERS):
    """What is wrong with the table itself."""
    errors = [f"tools/check_layers.py:1: layer {layer} may include {lower}, which is no layer"
              for layer, lowers in layers.items() for lower in sorted(lowers or ())
              if lower not in layers]
    cycle = find_cycle(layers)
    if cycle:
        errors.append(f"tools/check_layers.py:1: the table is cyclic: {' -> '.join(cycle)}")
    return errors


def check_text(path, text, layers=LAYERS, core=frozenset(CORE)):
    """The findings of one source file."""
    layer = layer_of(path, layers)
    if layer is None:
        return [f"{path}:1: no layer owns this path; add it to the table of tools/check_layers.py"]
    findings = []
    for number, line in enumerate(text.splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        included = match.group(1) or match.group(2)
        if layer in core and CORE_BANNED.match(included):
            findings.append(f"{path}:{number}: {layer} is core and must not include <{included}>")
        if not match.group(1):
            continue
        if included.startswith("."):
            findings.append(f"{path}:{number}: includes are relative to the root: {included}")
        target = layer_of(included, layers)
        if target is None or target in (layer, BASE) or layers[layer] is ANY:
            continue
        if target not in layers[layer]:
            findings.append(f"{path}:{number}: {layer} must not include {target} ({included})")
    return findings


def tracked_sources(root):
    names = subprocess.run(["git", "ls-files", "-z", "--", "*.h", "*.cc"], cwd=root, check=True,
                           capture_output=True, text=True).stdout.split("\0")
    return [name for name in names if name and (root / name).is_file()]


def main():
    root = Path(__file__).resolve().parent.parent
    findings = table_errors()
    for name in tracked_sources(root) if not findings else []:
        findings += check_text(name, (root / name).read_text(encoding="utf-8"))
    print("".join(f"{finding}\n" for finding in findings), end="")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
