"""ring.toml of a cluster on this machine: what it may be asked for, its text, and whether a file
that is there already is what is asked for."""

import errno
import json
import random
import re
import socket
import tomllib
from dataclasses import dataclass
from pathlib import Path

NAME = "ring.toml"
VOTERS = "voters"  # below the folder: what they decided
TRANSPORTS = ("auto", "rdma", "shm", "tcp")
MEMGEST = re.compile(r"^REP([1-9])$|^SRS([2-9])([1-4])$")


class Refused(ValueError):
    """A cluster that cannot be, or not in this folder: its text says why."""


@dataclass(frozen=True)
class Settings:
    """What a cluster is asked to be. None: as the file that is there says, else the default."""
    count: int
    transport: str | None = None           # auto, shared memory here
    rdma_address: tuple[str, ...] = ()     # of a device; one for all nodes, or one for each
    fail_over: bool | None = None          # True
    fence: str | None = None               # lease
    detect_ms: int | None = None           # ringd's own
    fault_injection: bool | None = None    # False
    durable: bool | None = None            # False; True: voters keep what they decided
    memgests: tuple[str, ...] = ()         # such as REP1, SRS32; none: the seven
    hosts: tuple[str, ...] = ()            # an address for each node; none: 127.0.0.1

    def check(self):
        """Refused where no cluster can be so."""
        if not 1 <= self.count <= 64:
            raise Refused("nodes must be 1 to 64")
        if self.hosts and len(self.hosts) != self.count:
            raise Refused(f"--hosts needs {self.count} addresses, one for each node")
        if len(self.rdma_address) not in (0, 1, self.count):
            raise Refused(f"--rdma-address needs one address, or {self.count}")
        if self.transport == "rdma" and not self.rdma_address:
            raise Refused("--transport rdma needs --rdma-address: ringctl doctor lists devices")
        if self.detect_ms is not None and not 5 <= self.detect_ms <= 60_000:
            raise Refused("--detect-ms must be 5 to 60000")
        if not all(MEMGEST.match(name) for name in self.memgests):
            raise Refused("--memgests knows REP1 to REP9 and SRS21 to SRS94")
        return self

    def cards(self):
        """The address of each node's device; empty without."""
        return self.rdma_address * (self.count if len(self.rdma_address) == 1 else 1)


def shape(count):
    """(s, d) of a cluster of so many nodes."""
    return {1: (1, 0), 2: (1, 1), 3: (2, 1), 4: (2, 2)}.get(count, (3, 2))


def free_ports(count):
    """Ports of 127.0.0.1 that nobody listens on; held together, so that all differ. Below those
    that Linux gives out by itself: one of those may become the end of somebody's connection before
    its node listens there."""
    sockets = []
    try:
        while len(sockets) < count:
            sockets.append(socket.socket())
            try:
                sockets[-1].bind(("127.0.0.1", random.randrange(10_000, 32_768)))
            except OSError as error:
                sockets.pop().close()
                if error.errno != errno.EADDRINUSE:
                    raise
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def memgest_lines(names):
    """Tables of memgests by the names that the default ones have: REP3, SRS32."""
    lines = []
    for name in names:
        copies, data, parity = MEMGEST.match(name).groups()
        scheme = f"rep = {copies}" if copies else f"srs = [{data}, {parity}]"
        lines += ["", "[[memgests]]", f'name = "{name}"', scheme]
    return lines


def quoted(text):
    """As a string of TOML, whatever is in it."""
    return json.dumps(str(text), ensure_ascii=False)


def text_of(settings, folder):
    """The text of the file that all nodes read."""
    count = settings.count
    s, d = shape(count)
    transport = settings.transport or "auto"
    hosts = settings.hosts or ("127.0.0.1",) * count
    cards = settings.cards()
    ports = free_ports((3 if cards else 2) * count)
    lines = ["[cluster]", f"name = {quoted(folder.name)}", f"s = {s}", f"d = {d}",
             f'fail_over = "{"off" if settings.fail_over is False else "on"}"',
             f'fence = "{settings.fence or "lease"}"']
    if settings.detect_ms:
        lines.append(f"detect_ms = {settings.detect_ms}")
    lines += ["", "[node]", f'transport = "{transport}"', 'ring_size = "256KiB"',
              'log_level = "warning"']
    if settings.fault_injection:
        lines.append('fault_injection = "on"')
    if settings.durable:
        lines.append(f"data_dir = {quoted(folder / VOTERS)}")
    for i in range(count):
        lines += ["", "[[nodes]]", f'name = "n{i}"', 'host = "local"',
                  f'data = "{hosts[i]}:{ports[2 * i]}"',
                  f'admin = "{hosts[i]}:{ports[2 * i + 1]}"']
        if cards:
            lines.append(f'rdma = "{cards[i]}:{ports[2 * count + i]}"')
        if transport in ("auto", "shm"):
            lines.append(f"shm = {quoted(folder / f'n{i}.sock')}")
    return "\n".join(lines + memgest_lines(settings.memgests)) + "\n"


def check_vacant(folder):
    """Refused where a cluster is, or what its voters remember, with addresses that no new file
    has."""
    path, voters = folder / NAME, folder / VOTERS
    if path.exists():
        raise Refused(f"{path} is of a cluster already: take another folder, or delete this one")
    if voters.exists() and any(voters.iterdir()):
        raise Refused(f"{voters} is of a cluster whose {NAME} is gone: delete it")


def write(settings, folder):
    """Writes the file of a new cluster; gives its path."""
    check_vacant(folder)
    path = folder / NAME
    text = text_of(settings, folder)
    try:
        tomllib.loads(text)
        path.write_bytes(text.encode())
    except (tomllib.TOMLDecodeError, UnicodeEncodeError) as error:
        raise Refused(f"{folder} has a name that no {NAME} can have: {error}") from error
    if settings.durable:
        (folder / VOTERS).mkdir(exist_ok=True)
    return path


def read(path):
    """What is in the file, as far as it is one of a cluster."""
    try:
        found = tomllib.loads(path.read_text())
        if not (found["cluster"] and found["node"] and found["nodes"]):
            raise KeyError
        return found
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Refused(f"{path}: {error}") from error
    except KeyError as error:
        raise Refused(f"{path} lacks [cluster], [node] or [[nodes]]") from error


def agree(settings, path, found):
    """Refused unless a file that is there is of this folder and has all that is asked for."""
    def hosts(key):
        return tuple(node[key].rsplit(":", 1)[0] for node in found["nodes"] if key in node)

    cluster, node = found["cluster"], found["node"]
    for option, asked, there in (
            ("nodes", settings.count, len(found["nodes"])),
            ("--transport", settings.transport, node.get("transport", "auto")),
            ("--rdma-address", settings.cards() or None, hosts("rdma")),
            ("fail-over", settings.fail_over, cluster.get("fail_over", "on") == "on"),
            ("--fence", settings.fence, cluster.get("fence", "lease")),
            ("--detect-ms", settings.detect_ms, cluster.get("detect_ms", "ringd's own")),
            ("--fault-injection", settings.fault_injection, node.get("fault_injection") == "on"),
            ("--durable", settings.durable, "data_dir" in node),
            ("--memgests", settings.memgests or None,
             tuple(one["name"] for one in found.get("memgests", ()))),
            ("--hosts", settings.hosts or None, hosts("data"))):
        if asked is not None and asked != there:
            raise Refused(f"{option}: {_shown(asked)} is asked for, {path} has {_shown(there)}")
    for place in (node.get("data_dir"), *(one.get("shm") for one in found["nodes"])):
        if place and Path(place).parent != path.parent:
            raise Refused(f"{path} was written for another folder: it has {place}")


def _shown(value):
    if isinstance(value, tuple):
        return ",".join(value) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value
