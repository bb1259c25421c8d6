"""What `leasehold backup` runs."""

from pathlib import Path

from leasehold.cli.entry import EXIT_INTERRUPTED
from leasehold.cli.interrupt import ended_by
from leasehold.cli.login import connected
from leasehold.cli.output import KeysLine, Output, note, show_answer
from leasehold.client.backup import BackupFile, backup_file
from leasehold.client.coordinators import Coordinators


def write_backup(
    directory: Path, user: str | None, file: Path, *, force: bool, timeout: str | None, output: Output
) -> None:
    """Raises `AlreadyExists`, `Refused` (NOT_WRITTEN), and as `Coordinators.backup`."""
    begun: list[BackupFile] = []

    def end() -> int:
        for one in begun:
            one.give_up()
        return EXIT_INTERRUPTED

    # To the end of the file, since it is synced to disk last.
    with ended_by(end), backup_file(file, force=force) as out:
        begun.append(out)
        with connected(Coordinators, directory, user, timeout=timeout) as cluster, KeysLine("read") as line:
            facts = cluster.backup(out, line.update)
    size_bytes = file.stat().st_size
    cluster_id, end_of = facts.cluster.cluster_id, facts.end
    value = {
        "file": str(file),
        "cluster_id": cluster_id,
        "generation": facts.cluster.generation,
        "revision": end_of.revision,
        "history_hash": end_of.lineage.hex(),
        "keys": end_of.keys,
        "bytes": size_bytes,
    }
    text = f"revision {end_of.revision} of cluster {cluster_id} is in {file}: {end_of.keys} keys, {size_bytes} bytes"
    show_answer(output, value, text)
    note("the file holds password hashes and the catalog, but no rows of tables: keep it where only operators read it")
