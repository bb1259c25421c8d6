"""`leasehold token`: a token in a file of credentials, so that nobody copies one by hand."""

from pathlib import Path
from typing import Annotated

import typer

from leasehold.certificates.files import CA
from leasehold.cli.options import DEFAULT_DIR, Asking, Dir, Out, User
from leasehold.cli.output import Output, show_answer
from leasehold.client.trust import WITHOUT_TLS
from leasehold.errors import Definite, OutcomeUnknown, Unreachable

token = typer.Typer(no_args_is_help=True, help="Make tokens, with which programs log in.")


@token.callback()
def tokens() -> None:
    """Make tokens, with which programs log in. DROP TOKEN and SHOW TOKENS are statements."""


@token.command()
def create(
    name: Annotated[str, typer.Argument(help="A name for the token.")],
    *,
    of: Annotated[str, typer.Option("--for", metavar="USER", help="The user who it logs in.")],
    to: Annotated[Path, typer.Option("--to", metavar="FILE", help="The file to create, for you alone.")],
    expires: Annotated[
        str | None, typer.Option(help="How long it is valid, such as 30d.", show_default="until it is dropped")
    ] = None,
    directory: Dir = DEFAULT_DIR,
    user: User = None,
    timeout: Asking = None,
    output: Out = Output.TABLE,
) -> None:
    """Make a token, in a file for LEASEHOLD_CREDENTIALS, or for `leasehold --credentials FILE sql ..`.

    It is shown nowhere else.
    """
    from leasehold.cli.login import connected
    from leasehold.client.coordinators import Coordinators
    from leasehold.client.credentials import CredentialsFile, write_credentials
    from leasehold.client.tokens import create_token_text, new_user_token

    made = new_user_token()
    text = create_token_text(made, name, of, expires)
    with connected(Coordinators, directory, user, timeout=timeout) as cluster:
        write_credentials(to, CredentialsFile(address=cluster.address, user=of, token=made, ca=_roots(cluster.trusted)))
        try:
            cluster.sql(text)
        except (Definite, Unreachable):
            to.unlink(missing_ok=True)
            raise
        except OutcomeUnknown as error:
            error.hint = f"SHOW TOKENS tells whether {name} was made; if so, {to} has it, else remove the file"
            raise
    show_answer(output, {"token": name, "user": of, "file": str(to)}, f"made token {name} of user {of}, in {to}")


def _roots(trusted: str) -> str | None:
    """The file of the authorities that a client trusts by a bundle or by that file; None without TLS."""
    if trusted == WITHOUT_TLS:
        return None
    return str(Path(trusted) / CA if Path(trusted).is_dir() else trusted)
