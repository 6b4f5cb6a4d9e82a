#!/usr/bin/env python3
"""Programs in C and C++ against the installed libring_ec_verbs, as a user would build them.

Installs the component ec_verbs into a folder, moves it, and builds programs with pkg-config's flags
alone. Of the sanitized builds only the compiler's flag differs.
"""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

EXPORTED_PREFIXES = ("ibv_", "_ibv_query_gid_")


def run(*command, env=None, status=0):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, env=env)
    if done.returncode != status:
        sys.exit(f"{command}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def stage(build, work):
    shutil.rmtree(work, ignore_errors=True)
    run("cmake", "--install", build, "--component", "ec_verbs", "--prefix", work / "first")
    (work / "first").rename(work / "moved")  # a path of the first place would show
    return work / "moved"


def check_library(library):
    """Nothing but the interface is exported, and the soname is that of the major version."""
    symbols = [line.split()[-1] for line in run("nm", "-D", "--defined-only", library).splitlines()]
    strangers = [name for name in symbols if not name.startswith(EXPORTED_PREFIXES)]
    assert not strangers, strangers
    assert "ibv_exp_ec_encode_send" in symbols and "ibv_open_device" in symbols
    assert "libring_ec_verbs.so.0" in run("readelf", "-d", library)


def main():
    build, libdir, cc, cxx, sanitize = sys.argv[1:6]
    build, here = Path(build), Path(__file__).resolve().parent
    root = here.parent.parent.parent
    work = build / "ec_verbs_programs"
    prefix = stage(build, work)
    lib = prefix / libdir
    check_library(lib / "libring_ec_verbs.so")
    san = ["-fsanitize=" + ("address,undefined" if sanitize == "address" else sanitize)]
    strict = ["-Wall", "-Wextra", "-Werror"] + (san if sanitize else [])
    env = dict(os.environ, PKG_CONFIG_PATH=str(lib / "pkgconfig"))
    cflags = shlex.split(run("pkg-config", "--cflags", "ring-ec-verbs", env=env))
    libs = shlex.split(run("pkg-config", "--libs", "ring-ec-verbs", env=env))
    at_run = dict(os.environ, LD_LIBRARY_PATH=str(lib))
    named = dict(at_run, RING_VERBS_DEVICE_NAME="mlx5_0")
    example = root / "ec_offload/verbs_exp/example/ec_verbs_example.c"

    for source in (example, here / "capability_program.c"):
        for standard in ("gnu99", "gnu17"):
            program = work / f"{source.stem}_{standard}"
            run(cc, f"-std={standard}", *strict, *cflags, source, "-o", program, *libs)
            run(program, "ring0", env=at_run)
            run(program, "mlx5_0", env=named)
            run(program, "mlx5_0", env=at_run, status=1)
    # A C++ program, and each header alone in strict C++ and C.
    for header in ("verbs.h", "verbs_exp.h"):
        text = (f"#include <infiniband/{header}>\n"
                "int main() { return ibv_exp_ec_poll(nullptr, 1) < 0 ? 0 : 1; }\n")
        (work / "alone.cc").write_text(text)
        (work / "alone.c").write_text(text.replace("nullptr", "NULL").replace("main()",
                                                                              "main(void)"))
        for compiler, standard, name in ((cxx, "c++11", "alone.cc"), (cxx, "c++20", "alone.cc"),
                                         (cc, "c11", "alone.c")):
            run(compiler, f"-std={standard}", "-Wpedantic", *strict, *cflags, work / name, "-o",
                work / "alone", *libs)
            run(work / "alone", env=at_run)
    # A plain verbs program, built without us.
    if not sanitize:
        run(cc, "-std=gnu11", *strict, here / "plain_program.c", "-o", work / "plain", "-libverbs")
        preloaded = dict(at_run, LD_PRELOAD=str(lib / "libring_ec_verbs.so"),
                         RING_VERBS_DEVICE_NAME="ring0")
        said = run(work / "plain", env=preloaded)
        assert said == "success, over the loop\n", said


if __name__ == "__main__":
    main()
