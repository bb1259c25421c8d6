"""`leasehold ca`: the certificate authority of a cluster, and the bundles that it makes."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from leasehold.certificates.names import CertificateRole
from leasehold.cli.options import Out
from leasehold.cli.output import Output, note, say, show_answer, show_json, show_table
from leasehold.errors import BadSettings
from leasehold.limits.certificates import CERTIFICATE_DAYS, CERTIFICATE_DAYS_MAX

if TYPE_CHECKING:
    from leasehold.certificates.checks import OwnCertificate
    from leasehold.certificates.summary import CertificateFacts

ca = typer.Typer(no_args_is_help=True, help="Make certificates for nodes, coordinators and clients, and look at them.")

_DAYS: Final = re.compile(r"[0-9]{1,9}")

AuthorityDir = Annotated[Path, typer.Argument(metavar="DIR", help="The directory of the authority.")]
Bundle = Annotated[Path, typer.Argument(metavar="BUNDLE", help="The directory with a key and its certificate.")]


def read_days(given: str | int) -> int:
    """A number of days in ASCII digits. Raises `typer.BadParameter`."""
    text = str(given)
    if _DAYS.fullmatch(text) is None or not 1 <= int(text) <= CERTIFICATE_DAYS_MAX:
        raise typer.BadParameter(f"{text[:80]!r} is not a number of days, 1 to {CERTIFICATE_DAYS_MAX}")
    return int(text)


Days = Annotated[
    int,
    typer.Option(
        "--days", parser=read_days, metavar=f"1..{CERTIFICATE_DAYS_MAX}", help="How long the certificate is valid."
    ),
]


@ca.command()
def init(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The directory to create.")],
    successor_of: Annotated[
        Path | None,
        typer.Option("--successor-of", metavar="DIR", help="Take the place of this authority; all names stay."),
    ] = None,
    output: Out = Output.TABLE,
) -> None:
    """Create an authority, in a directory that only its owner can read."""
    from leasehold.certificates.authority import create_authority
    from leasehold.certificates.certificate import show_time
    from leasehold.wire.entropy import SystemEntropy

    made = create_authority(directory, SystemEntropy().hex_128(), _now(), successor_of=successor_of)
    until = show_time(made.certificate.not_valid_after_utc)
    value = {"directory": str(directory), "authority": made.id, "not_after": until}
    show_answer(output, value, f"made {directory}: authority {made.id}, until {until}")
    note("whoever has this directory can be any node, coordinator or user: keep it, and one backup, off the cluster")


@ca.command()
def issue(
    directory: AuthorityDir,
    *,
    to: Annotated[Path, typer.Option("--to", metavar="BUNDLE", help="The directory to create.")],
    node: Annotated[str | None, typer.Option(metavar="NAME", help="The name of a node.")] = None,
    coordinator: Annotated[str | None, typer.Option(metavar="NAME", help="The name of a coordinator.")] = None,
    client: Annotated[str | None, typer.Option(metavar="USER", help="The name of a user.")] = None,
    days: Days = CERTIFICATE_DAYS,
    output: Out = Output.TABLE,
) -> None:
    """Make a bundle: a new key, its certificate, and the authority's certificate."""
    given = {CertificateRole.NODE: node, CertificateRole.COORDINATOR: coordinator, CertificateRole.CLIENT: client}
    named = [(role, name) for role, name in given.items() if name is not None]
    if len(named) != 1:
        raise BadSettings("a certificate is for one name", hint="give one of --node, --coordinator and --client")
    from leasehold.certificates.authority import issue as run
    from leasehold.certificates.authority import open_authority

    role, name = named[0]
    _show_own(output, f"made {to}", to, run(open_authority(directory), role, name, days, to, _now()), days)
    note(f"copy it to the machine of {role} {name} and to no other, with the modes that it has")


@ca.command()
def renew(directory: AuthorityDir, bundle: Bundle, days: Days = CERTIFICATE_DAYS, output: Out = Output.TABLE) -> None:
    """Give a bundle a new key and a new certificate of the same name, in one step."""
    from leasehold.certificates.authority import open_authority
    from leasehold.certificates.authority import renew as run

    _show_own(output, f"renewed {bundle}", bundle, run(open_authority(directory), bundle, days, _now()), days)


@ca.command()
def revoke(
    directory: AuthorityDir,
    serial: Annotated[str, typer.Argument(metavar="SERIAL", help="The serial number, as `ca show DIR` shows it.")],
    output: Out = Output.TABLE,
) -> None:
    """Look a certificate up by its serial number, and show the statement that makes a cluster refuse it."""
    from leasehold.certificates.authority import find_issued, open_authority
    from leasehold.certificates.certificate import show_time

    name, certificate, number = find_issued(open_authority(directory), serial)
    until, statement = show_time(certificate.not_valid_after_utc), f"ALTER CLUSTER REVOKE CERTIFICATE '{number}'"
    value = {"role": name.role, "name": name.name, "serial": number, "not_after": until, "statement": statement}
    show_answer(output, value, f"{name}, serial {number}, until {until}: {statement}")
    note("no cluster knows of it yet: run the statement, for example with `leasehold sql`")


@ca.command()
def trust(
    bundle: Bundle,
    files: Annotated[list[Path], typer.Argument(metavar="CA.pem...", help="Files with certificates of authorities.")],
    only: Annotated[bool, typer.Option("--only", help="Trust no others any more.")] = False,
    output: Out = Output.TABLE,
) -> None:
    """Let a bundle trust further authorities, or --only these."""
    from leasehold.certificates.trust import trust as run

    now_trusts, problem = run(bundle, files, _now(), only=only)
    noun = "authority" if now_trusts == 1 else "authorities"
    value = {"bundle": str(bundle), "authorities": now_trusts, "problem": None if problem is None else problem.text}
    show_answer(output, value, f"{bundle} trusts {now_trusts} {noun} from now on")
    if problem is not None:
        note(f"the bundle can't be used yet: {problem.text}")


@ca.command()
def show(
    path: Annotated[Path, typer.Argument(metavar="FILE|DIR", help="A file in PEM format, a bundle or an authority.")],
    output: Out = Output.TABLE,
) -> None:
    """Show who each certificate is for, its authority, and until when it is valid; for a bundle also what is wrong."""
    from leasehold.certificates.certificate import show_time
    from leasehold.certificates.summary import summarise

    found = summarise(path, _now())
    if output is Output.JSON:
        problem = None if found.problem is None else {"text": found.problem.text, "hint": found.problem.hint}
        facts = [_fact(one) for one in found.certificates]
        show_json({"certificates": facts, "left_out": found.left_out, "problem": problem})
        return
    columns = ("of", "who", "until", "serial", "SHA-256", "issuer")
    rows = [
        (one.place or one.file.name, _who(one), show_time(one.not_after), one.serial, one.sha256, one.issuer)
        for one in found.certificates
    ]
    show_table(columns, rows)
    if found.left_out:
        say(f"and {found.left_out} older ones")
    if found.problem is not None:
        say(f"problem: {found.problem.text}")
        say(f"hint: {found.problem.hint}")


def _who(one: "CertificateFacts") -> str:
    return f"{one.role} {one.name}" if one.role in set(CertificateRole) else one.name


def _fact(one: "CertificateFacts") -> dict[str, Any]:
    from leasehold.certificates.certificate import show_time

    return {
        "file": str(one.file),
        "of": one.place,
        "role": one.role,
        "name": one.name,
        "authority": one.authority,
        "serial": one.serial,
        "not_before": show_time(one.not_before),
        "not_after": show_time(one.not_after),
        "sha256": one.sha256,
        "issuer": one.issuer,
        "dns_names": list(one.dns_names),
    }


def _show_own(output: Output, done: str, bundle: Path, own: "OwnCertificate", days: int) -> None:
    from leasehold.certificates.certificate import show_time

    until, serial = show_time(own.not_after), f"{own.serial:x}"
    value = {
        "bundle": str(bundle),
        "role": own.name.role,
        "name": own.name.name,
        "authority": own.name.authority,
        "serial": serial,
        "not_after": until,
    }
    show_answer(output, value, f"{done}: {own.name}, serial {serial}, until {until}")
    if own.not_after - own.not_before < timedelta(days=days):
        note(f"it ends with its authority, before {days} days: see `leasehold ca init --successor-of`")


def _now() -> datetime:
    from leasehold.wire.clock import BoottimeClock

    return datetime.fromtimestamp(BoottimeClock().wall_us() // 1_000_000, UTC)
