"""`leasehold meta`: what an operator does with the meta storage of a stopped cluster."""

from typing import Annotated

import typer

from leasehold.cli.options import (
    Asking,
    CoordinatorDir,
    Meta,
    MetaCa,
    MetaCert,
    MetaKey,
    MetaPasswordFile,
    MetaQuota,
    MetaUser,
    Out,
)
from leasehold.cli.output import Output

meta = typer.Typer(no_args_is_help=True, help="Move the meta storage of a stopped cluster.")


@meta.callback()
def _meta() -> None:
    """Keeps `migrate` a command of its own."""


@meta.command()
def migrate(
    *,
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="PLACE",
            help="A store that coordinators share, such as etcd://10.0.0.1:2379/my-cluster; or `sqlite`, for a file in"
            " --dir.",
        ),
    ],
    directory: CoordinatorDir = None,
    meta: Meta = None,
    meta_ca: MetaCa = None,
    meta_cert: MetaCert = None,
    meta_key: MetaKey = None,
    meta_user: MetaUser = None,
    meta_password_file: MetaPasswordFile = None,
    meta_quota: MetaQuota = None,
    timeout: Asking = None,
    output: Out = Output.TABLE,
) -> None:
    """Move the meta storage of a stopped cluster: from --meta, or else from the file in --dir.

    The cluster stays the same, with its revisions and its history, so no node needs a snapshot. The old place is
    marked: no coordinator starts on it any more. If the command is interrupted, run it again.
    """
    from leasehold.cli.migrate import migrate as run

    store = {
        "meta_ca": meta_ca,
        "meta_cert": meta_cert,
        "meta_key": meta_key,
        "meta_user": meta_user,
        "meta_password_file": meta_password_file,
        "meta_quota": meta_quota,
    }
    run(to, directory, meta, store, timeout=timeout, output=output)
