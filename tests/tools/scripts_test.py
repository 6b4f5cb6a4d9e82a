"""Tests of the programs of tools/, with package manager and build replaced by stand-ins."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class Scripts(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.bin = Path(folder.name)
        self.log = self.bin / "calls"
        for name in ("apt-get", "sudo"):
            self.program(name, f'echo "{name} $*" >> "{self.log}"')

    def program(self, name, script):
        path = self.bin / name
        path.write_text(f"#!/bin/bash\n{script}\n")
        path.chmod(0o755)

    def has_packages_without(self, missing):
        # Answers like dpkg-query: unknown packages go to stderr and to the exit status.
        self.program("dpkg-query", f"""
shift 3
for package; do
  if [[ " {missing} " == *" $package "* ]]; then status=1; else echo "installed $package"; fi
done
exit ${{status:-0}}""")

    def run_tool(self, *command):
        path = f"{self.bin}:{os.environ['PATH']}"
        environment = {k: v for k, v in os.environ.items() if k != "RING_BUILD"}
        return subprocess.run([ROOT / command[0], *command[1:]], capture_output=True, text=True,
                              env={**environment, "PATH": path}, check=False)

    def calls(self):
        return self.log.read_text() if self.log.exists() else ""

    def test_setup_does_nothing_when_every_package_is_there(self):
        self.has_packages_without("")
        result = self.run_tool("tools/setup")
        self.assertEqual((result.returncode, result.stdout, self.calls()), (0, "", ""))

    def test_setup_check_prints_what_is_missing_and_installs_nothing(self):
        self.has_packages_without("ccache libisal-dev")
        result = self.run_tool("tools/setup", "--check")
        self.assertEqual(result.returncode, 1)
        self.assertEqual(sorted(result.stdout.split()), ["ccache", "libisal-dev"])
        self.assertEqual(self.calls(), "")

    def test_setup_installs_only_what_is_missing(self):
        self.has_packages_without("ccache")
        result = self.run_tool("tools/setup")
        self.assertEqual(result.returncode, 0, result.stderr)
        # As root it calls apt-get itself, else through sudo.
        self.assertIn("apt-get update", self.calls())
        self.assertRegex(self.calls(), r"apt-get install .*--no-install-recommends ccache\n")

    def test_unknown_options_are_refused_with_the_usage(self):
        for tool in ("tools/setup", "tools/test", "tools/check"):
            result = self.run_tool(tool, "--no-such-option")
            self.assertEqual(result.returncode, 2, tool)
            self.assertIn(tool, result.stderr)
        self.assertEqual(self.run_tool("tools/test", "-R").returncode, 2)

    def test_tests_on_a_device_cannot_be_chosen(self):
        result = self.run_tool("tools/test", "--verbs", "-R", "any")
        self.assertEqual((result.returncode, result.stdout), (2, ""))
        self.assertEqual(result.stderr.count("\n"), 1)
        self.assertIn("-R", result.stderr)

    def test_a_build_that_fails_is_seen_and_ends_a_chaos_run(self):
        self.program("cmake", "echo 'FAILED: some.o'; exit 3")
        result = self.run_tool("tools/chaos", "--minutes", "0.1")
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        self.assertRegex(result.stderr, r"^FAILED: some.o\ntools/chaos: cmake .*: status 3\n$")

    def test_clusters_that_cannot_be_are_wrong_usage(self):
        for argv in (("tools/chaos", "--memgests", "BAD"), ("tools/chaos", "--detect-ms", "1"),
                     ("tools/chaos", "--nodes", "5"), ("tools/false-alarms", "--nodes", "1"),
                     ("tools/false-alarms", "--detect-ms", "1"),
                     ("tools/false-alarms", "--seconds", "0")):
            result = self.run_tool(*argv)
            self.assertEqual((result.returncode, result.stdout), (2, ""), argv)
            self.assertRegex(result.stderr.splitlines()[-1], rf"^{argv[0]}: error: {argv[1]}")

    def test_every_script_is_executable(self):
        for tool in ("tools/setup", "tools/test", "tools/check", ".ci/run"):
            self.assertTrue(os.access(ROOT / tool, os.X_OK), tool)
            subprocess.run(["bash", "-n", ROOT / tool], check=True)


if __name__ == "__main__":
    unittest.main()
