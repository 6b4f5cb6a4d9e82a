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

# Functions of libibverbs that we need not export, by the reason. A new one must get its place here
# or among the exported: with an object of the software device the system's library would crash.
NOT_EXPORTED = {
    "takes numbers, text or plain structures": (
        "ibv_copy_ah_attr_from_kern", "ibv_copy_path_rec_from_kern", "ibv_copy_path_rec_to_kern",
        "ibv_copy_qp_attr_from_kern", "ibv_dofork_range", "ibv_dontfork_range",
        "ibv_event_type_str", "ibv_fork_init", "ibv_get_sysfs_path", "ibv_is_fork_initialized",
        "ibv_node_type_str", "ibv_port_state_str", "ibv_rate_to_mbps", "ibv_rate_to_mult",
        "ibv_read_sysfs_file", "ibv_wc_status_str"),
    "takes an object of a kind that the software device never makes": (
        "ibv_ack_async_event", "ibv_destroy_ah", "ibv_destroy_srq", "ibv_modify_srq",
        "ibv_query_srq", "ibv_unimport_dm"),
    "takes a file descriptor of the kernel's, which the software device has not": (
        "ibv_import_device",),
    "for providers of old, not to be linked any more": ("ibv_register_driver",),
}


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


def check_calls_are_covered(library, system):
    """Each ibv_* of the system's library is exported by ours, or known to need no export.

    Functions of the version IBVERBS_PRIVATE_* are between rdma-core's own libraries: no header that
    is installed has them.
    """
    def functions(path):
        lines = run("nm", "-D", "--defined-only", "--with-symbol-versions", path).splitlines()
        names = [line.split()[-1] for line in lines]
        return {name.split("@")[0] for name in names if "@IBVERBS_PRIVATE" not in name}

    exported = functions(library)
    public = {name for name in functions(system) if name.lstrip("_").startswith("ibv_")}
    assert "ibv_open_device" in public and len(public) > 60, public
    excused = {name for names in NOT_EXPORTED.values() for name in names}
    assert not public - exported - excused, f"not covered: {public - exported - excused}"
    assert not excused & exported, f"exported, and excused: {excused & exported}"


def main():
    build, libdir, cc, cxx, sanitize = sys.argv[1:6]
    build, here = Path(build), Path(__file__).resolve().parent
    root = here.parent.parent.parent
    work = build / "ec_verbs_programs"
    prefix = stage(build, work)
    lib = prefix / libdir
    check_library(lib / "libring_ec_verbs.so")
    check_calls_are_covered(lib / "libring_ec_verbs.so",
                            run(cc, "-print-file-name=libibverbs.so.1").strip())
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
