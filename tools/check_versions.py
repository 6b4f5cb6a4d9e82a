"""The versions that documents name, against the constants of the code. Part of tools/tidy.py."""

import re

# document, what stands before the number there, source file, constant. The text before must be
# there once; a number of a version that no row is for is a finding, too.
PROTOCOL = "docs/PROTOCOL.md"
NODES = "docs/PROTOCOL_NODES.md"
VERSIONS = [
    (PROTOCOL, 'magic "RVEW",\nu16 version ', "ring/cluster/view_codec.cc", "kViewVersion"),
    (PROTOCOL, 'magic "RING" |\n| 4 | 2 | protocol version ', "ring/protocol/hello.h",
     "kProtocolVersion"),
    (PROTOCOL, "command is u8 version ", "ring/cluster/cluster_command_codec.cc", "kVersion"),
    (PROTOCOL, "| machine | u16 version ", "ring/node/control/cluster_machine.cc",
     "kSnapshotVersion"),
    (PROTOCOL, "| state | u16 version ", "ring/cluster/cluster_state.cc", "kSnapshotVersion"),
    (PROTOCOL, "| catalogue | u16 version ", "ring/cluster/catalogue_codec.cc",
     "kSnapshotVersion"),
    (PROTOCOL, "| 1 segment | u32 version ", "consensus/file/log_segment.h", "kSegmentVersion"),
    (PROTOCOL, 'magic "RGP1" |\n| 4 | 1 | version ', "rdma/soft/tcp_frame.h", "kTcpVersion"),
    (PROTOCOL, "a greeting of 8 bytes, and a rejection's is the magic and a reason.\n\n"
               "| offset | bytes | what |\n|---|---|---|\n| 0 | 4 | magic \"RNGv\" |\n"
               "| 4 | 2 | version ", "rdma/verbs/wire.h", "kVerbsVersion"),
    (PROTOCOL, "messages without bytes that wake the receiver.\n\n"
               "| offset | bytes | what |\n|---|---|---|\n| 0 | 4 | magic \"RNGv\" |\n"
               "| 4 | 2 | version ", "rdma/verbs/wire.h", "kVerbsVersion"),
    (PROTOCOL, "magic 0x52494e4748534b31 |\n| 8 | 4 | version ", "rdma/soft/shm_wire.cc",
     "kVersion"),
    (PROTOCOL, "magic 0x52494e4753484d31 | owner |\n| 8 | 4 | version ",
     "rdma/soft/control_layout.h", "kLayoutVersion"),
    (NODES, "all of the body: u8 version ", "ring/cluster/cluster_command_codec.cc", "kVersion"),
    (NODES, "| offset | bytes | catalogue command |\n|---|---|---|\n| 0 | 1 | version ",
     "ring/cluster/catalogue_codec.cc", "kCommandVersion"),
]
NAMED = re.compile(r"\bversion (\d+)\b")


def _constant(text, name):
    match = re.search(rf"\b{name} = (\d+);", text)
    return match.group(1) if match else None


def check_versions(files, versions=tuple(VERSIONS)):
    """Findings of a tree, given as path -> text; documents that are not there are nobody's."""
    findings, told = [], {}
    for document, before, source, constant in versions:
        if document not in files:
            continue
        text = files[document]
        # A line may be wrapped at any blank.
        words = r"\s".join(re.escape(word) for word in re.split(r"\s", before))
        places = list(re.finditer(rf"{words}(\d+)", text))
        if len(places) != 1:
            findings.append(f"{document}:1: names {len(places)} times the version that "
                            f"tools/check_versions.py looks for behind {before!r}")
            continue
        at = places[0].start(1)
        told.setdefault(document, set()).add(at)
        value = _constant(files.get(source, ""), constant)
        if value != places[0].group(1):
            findings.append(f"{document}:{text.count(chr(10), 0, at) + 1}: version "
                            f"{places[0].group(1)}, but {constant} of {source} is {value}")
    for document in {row[0] for row in versions} & set(files):
        for match in NAMED.finditer(files[document]):
            if match.start(1) not in told.get(document, ()):
                line = files[document].count("\n", 0, match.start()) + 1
                findings.append(f"{document}:{line}: {match.group(0)} of what? give it a row in "
                                "tools/check_versions.py")
    return findings
