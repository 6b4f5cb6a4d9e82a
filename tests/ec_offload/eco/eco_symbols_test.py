"""The shared library exports what its headers declare, each of these has a manual page, and the
oracle of the tests is not linked."""

import re
import subprocess
import sys
from pathlib import Path

library, folder = sys.argv[1], Path(sys.argv[2])
dynamic = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True,
                         text=True).stdout
exported = {line.split()[2].split("@")[0] for line in dynamic.splitlines()
            if line.split()[1] not in ("A",)}
declared = set()
for header in (folder / "include/ecOffload").glob("*.h"):
    text = re.sub(r"//.*", "", header.read_text())
    declared |= set(re.findall(r"\b((?:mlx_eco|eco_list|init_eco)_\w+)\(", text))
pages = "".join(page.read_text() for page in (folder / "man").glob("*.3"))
undocumented = {name for name in declared
                if not re.search(rf'^\.BI "[^"]*\b{name}\(', pages, re.MULTILINE)}
sections = subprocess.run(["readelf", "-d", library], check=True, capture_output=True,
                          text=True).stdout
soname = re.search(r"SONAME.*\[(.*)\]", sections).group(1)

failures = []
if exported != declared:
    failures.append(f"exported and declared differ: {sorted(exported ^ declared)}")
if undocumented:
    failures.append(f"without a manual page: {sorted(undocumented)}")
if soname != "libecOffload.so.1":
    failures.append(f"soname {soname}")
if re.search(r"NEEDED.*(erasure|gf_complete)", sections):
    failures.append("links the oracle of its tests")
print("\n".join(failures) or f"{len(exported)} functions")
sys.exit(1 if failures else 0)
