"""`leasehold backup`, `leasehold restore` and `leasehold recover`."""

from pathlib import Path
from typing import Annotated

import typer

from leasehold.cli.options import (
    DEFAULT_DIR,
    Asking,
    CoordinatorDir,
    Dir,
    LongestLease,
    Meta,
    MetaCa,
    MetaCert,
    MetaKey,
    MetaPasswordFile,
    MetaQuota,
    MetaUser,
    Out,
    User,
)
from leasehold.cli.output import Output

BackupFile = Annotated[Path, typer.Argument(metavar="FILE", help="The file of the backup.")]


def backup(
    file: BackupFile,
    directory: Dir = DEFAULT_DIR,
    user: User = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
    timeout: Asking = None,
    output: Out = Output.TABLE,
) -> None:
    """Write the catalog, with users and rights, to one file, while the cluster runs. The rows of tables are not in it.

    Only the file's owner can read it: it holds password hashes. Any coordinator can answer.
    """
    from leasehold.cli.backup_file import write_backup

    write_backup(directory, user, file, force=force, timeout=timeout, output=output)


def restore(
    file: BackupFile,
    *,
    directory: CoordinatorDir = None,
    meta: Meta = None,
    meta_ca: MetaCa = None,
    meta_cert: MetaCert = None,
    meta_key: MetaKey = None,
    meta_user: MetaUser = None,
    meta_password_file: MetaPasswordFile = None,
    meta_quota: MetaQuota = None,
    newest: Annotated[
        bool,
        typer.Option(
            "--newest", help="Nothing has changed since the backup: go on without a new generation of the cluster."
        ),
    ] = False,
    longest_lease: LongestLease = None,
    timeout: Asking = None,
    output: Out = Output.TABLE,
) -> None:
    """Write a backup into the directory of a coordinator, or into a store that coordinators share.

    Neither may hold a meta storage yet. The cluster goes on as of the backup: each change since then is undone. It
    begins a new generation, as with `leasehold recover`.
    """
    from leasehold.cli.restore import restore as run

    given = {
        "dir": directory,
        "meta": meta,
        "meta_ca": meta_ca,
        "meta_cert": meta_cert,
        "meta_key": meta_key,
        "meta_user": meta_user,
        "meta_password_file": meta_password_file,
        "meta_quota": meta_quota,
    }
    run(file, given, newest=newest, longest_lease=longest_lease, timeout=timeout, output=output)


def recover(
    *,
    places: Annotated[
        list[Path] | None,
        typer.Option(
            "--from",
            metavar="PATH",
            help="A backup, or the directory of a coordinator, of a node or of a whole cluster; may be repeated. The"
            " newest that is whole is taken.",
        ),
    ] = None,
    directory: CoordinatorDir = None,
    meta: Meta = None,
    meta_ca: MetaCa = None,
    meta_cert: MetaCert = None,
    meta_key: MetaKey = None,
    meta_user: MetaUser = None,
    meta_password_file: MetaPasswordFile = None,
    meta_quota: MetaQuota = None,
    longest_lease: LongestLease = None,
    timeout: Asking = None,
    output: Out = Output.TABLE,
) -> None:
    """Begin a new generation of the cluster from an older state of the metadata, if the newest is lost.

    With --from, in an empty directory or store. Without it, in the meta storage that is there, for example in a store
    whose own snapshot was restored. No coordinator may run. Each change since that state is undone: objects, rows and
    rights. Nodes that have seen none of these changes recover by themselves.
    """
    from leasehold.cli.recover import recover as run

    given = {
        "dir": directory,
        "meta": meta,
        "meta_ca": meta_ca,
        "meta_cert": meta_cert,
        "meta_key": meta_key,
        "meta_user": meta_user,
        "meta_password_file": meta_password_file,
        "meta_quota": meta_quota,
    }
    run(places or (), given, longest_lease=longest_lease, timeout=timeout, output=output)
