"""`leasehold backup`."""

from pathlib import Path
from typing import Annotated

import typer

from leasehold.cli.options import (
    DEFAULT_DIR,
    Asking,
    Dir,
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
