"""What kind of file system a path is on, as far as the system tells."""

from __future__ import annotations

from pathlib import Path

NO_WAL = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse.sshfs", "afs", "ceph"})
"""Write-ahead logging needs memory shared between all processes: not to be had over a network."""


def file_system(path: Path) -> str | None:
    """The type of the file system (`ext4`, `nfs4`, …), None where the system doesn't tell."""
    try:
        lines = Path("/proc/self/mountinfo").read_text().splitlines()
    except OSError:
        return None
    place = path.resolve()
    best: tuple[int, str] | None = None
    for line in lines:
        fields, _, rest = line.partition(" - ")
        mount = Path(fields.split()[4].replace("\\040", " "))
        if place.is_relative_to(mount) and (best is None or len(mount.parts) >= best[0]):
            best = (len(mount.parts), rest.split()[0])
    return best[1] if best else None
