"""README's commands, as they stand there, on a small folder instead of the one that it names."""

import os
import re
import shlex
import signal
import unittest

from programs import ROOT, Programs, processes_of

FOLDER = "/usr/share/doc"
FILES = 120


def shell_blocks():
    """Heading -> its fenced blocks that name no language: the commands."""
    found, heading, block = {}, "", None
    for line in (ROOT / "README.md").read_text().splitlines():
        fence = re.match(r"```(\w*)$", line)
        if fence and block is None:
            block = [fence.group(1)]
        elif fence:
            if not block[0]:
                found.setdefault(heading, []).append("\n".join(block[1:]))
            block = None
        elif block is not None:
            block.append(line)
        elif re.match(r"#+ ", line):
            heading = line.lstrip("# ")
    return found


class Readme(Programs):
    def setUp(self):
        super().setUp()
        self.tree = self.folder / "tree"
        (self.tree / "below").mkdir(parents=True)
        # So many that each node coordinates some of them.
        sizes = (0, 1, 1000, 8193, 70_000)
        for i in range(FILES):
            folder = self.tree / "below" if i % 2 else self.tree
            (folder / f"file {i}").write_bytes(os.urandom(sizes[i % len(sizes)]))

    def commands(self, heading):
        """The one block under the heading, with the folder of this test."""
        blocks = shell_blocks().get(heading, [])
        self.assertEqual(len(blocks), 1, heading)
        self.assertIn(FOLDER, blocks[0])
        return blocks[0].replace(FOLDER, str(self.tree))

    def test_the_quick_start_runs(self):
        served = demonstrated = 0
        for line in self.commands("Ring").splitlines():
            words = shlex.split(line, comments=True)
            if "--" in words:
                result = self.run_program(*words, cwd=ROOT)
                self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
                self.assertIn(b" 0 mismatches", result.stdout)
                demonstrated += 1
            elif words:  # in the foreground, until Ctrl-C
                process = self.start(*words, cwd=ROOT)
                self.ready(process)
                status, _, err = self.stop(process, signal.SIGINT)
                self.assertEqual(status, 0, err)
                served += 1
        self.assertEqual((served, demonstrated), (1, 1))

    def test_a_node_is_lost_and_every_byte_is_there(self):
        result = self.run_program("bash", "-c", self.commands("Losing a node"), cwd=ROOT)
        out, err = result.stdout.decode(), result.stderr.decode()
        self.assertEqual(result.returncode, 0, out + err)
        self.assertIn("n1 was killed, as asked", err)
        for verb in ("loaded", "verified"):
            self.assertIn(f"{verb} files={FILES} of {FILES}", out)
        self.assertIn("failure of node 1", out)
        self.assertEqual(processes_of(self.marker), [])

    def test_no_command_of_it_is_left_out(self):
        self.assertEqual(set(shell_blocks()), {"Ring", "Losing a node"})


if __name__ == "__main__":
    unittest.main(verbosity=2)
