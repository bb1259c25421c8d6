"""`leasehold health`: whether the node or coordinator in a directory answers, for the health check of a container."""

from pathlib import Path
from typing import Annotated

import typer

from leasehold.cli.options import Out, Tls
from leasehold.cli.output import Output, show_answer


def health(
    directory: Annotated[Path, typer.Argument(help="The directory of a node or a coordinator on this machine.")],
    tls: Tls = None,
    output: Out = Output.TABLE,
) -> None:
    """Ask the process that uses a directory how it is; exit 5 if it does not answer. For health checks."""
    from leasehold.cli.checkup.alive import health_of

    found = health_of(directory, tls)
    text = f"{found.process} at {found.address}: {found.state}" + (f", {found.text}" if found.text else "")
    show_answer(output, found._asdict(), text)
