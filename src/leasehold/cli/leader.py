"""`leasehold leader`: what an operator does with the leadership of several coordinators."""

from typing import Annotated

import typer

from leasehold.cli.options import DEFAULT_DIR, Asking, Dir, Out, User
from leasehold.cli.output import Output

leader = typer.Typer(no_args_is_help=True, help="Move the leadership among several coordinators.")


@leader.callback()
def _leader() -> None:
    """Keeps `transfer` a command of its own."""


@leader.command()
def transfer(
    name: Annotated[
        str | None,
        typer.Argument(help="The coordinator that leads next, by its name or address.", show_default="any other"),
    ] = None,
    directory: Dir = DEFAULT_DIR,
    user: User = None,
    timeout: Asking = None,
    output: Out = Output.TABLE,
) -> None:
    """Hand the leadership to another coordinator, and wait until that one leads.

    For example before the leader's machine is stopped. A statement under way goes on under the next leader.
    """
    from leasehold.cli.transfer import transfer as run

    run(directory, user, name, timeout, output)
