"""`leasehold cluster-key`: the secret that the processes of a cluster share for their gossip."""

from pathlib import Path
from typing import Annotated

import typer

from leasehold.cli.options import Out
from leasehold.cli.output import Output, note, show_answer
from leasehold.wire.cluster_key import generate


def cluster_key(
    file: Annotated[Path, typer.Argument(help="The file to create; an existing file is never replaced.")],
    output: Out = Output.TABLE,
) -> None:
    """Create a cluster key, in a file that only its owner can read."""
    generate(file)
    show_answer(output, {"cluster_key": str(file)}, f"made {file}")
    note("copy it to every machine of this cluster and to no other machine, with mode 0600; name it with --cluster-key")
