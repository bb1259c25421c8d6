"""The command line. Exit codes: 0 done, 1 a check failed, 2 usage, 3 refused or rolled back, 4 outcome unknown,
5 unreachable, 6 committed while nodes are pending.

As for any program: 130 interrupted, 141 nobody reads the output.
"""

if __name__ == "__main__":  # as `python -m`: before anything large is imported
    import sys

    from leasehold.cli.entry import begin

    begin(sys.argv[1:])

import contextlib
import os
import signal
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from leasehold.cli.backup import backup as backup_command
from leasehold.cli.backup import recover as recover_command
from leasehold.cli.backup import restore as restore_command
from leasehold.cli.ca import ca as ca_commands
from leasehold.cli.chaos import chaos as chaos_commands
from leasehold.cli.cluster_key import cluster_key as cluster_key_command
from leasehold.cli.doctor import doctor as doctor_command
from leasehold.cli.health import health as health_command
from leasehold.cli.leader import leader as leader_commands
from leasehold.cli.meta_storage import meta as meta_commands
from leasehold.cli.node import node as node_commands
from leasehold.cli.options import (
    DEFAULT_DIR,
    Advertise,
    Asking,
    ClusterKey,
    ConfigFile,
    CoordinatorDir,
    Dir,
    Gossip,
    Listen,
    Meta,
    MetaCa,
    MetaCert,
    MetaKey,
    MetaPasswordFile,
    MetaQuota,
    MetaUser,
    NodeName,
    Out,
    Restart,
    RestartWhen,
    Seeds,
    Tls,
    User,
)
from leasehold.cli.output import Output, Retrying, RowsOutput, note, report, say, show_answer
from leasehold.cli.service import service as service_commands
from leasehold.cli.token import token as token_commands
from leasehold.cli.up import up as up_command
from leasehold.cli.vault import vault as vault_commands
from leasehold.client.credentials import CREDENTIALS_VARIABLE
from leasehold.error_codes import ErrorCode
from leasehold.errors import ExitCode, LeaseholdError, NotFound
from leasehold.ids import StatementId

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("up")(up_command)
app.add_typer(ca_commands, name="ca")
app.add_typer(chaos_commands, name="chaos")
app.add_typer(leader_commands, name="leader")
app.add_typer(meta_commands, name="meta")
app.add_typer(node_commands, name="node")
app.add_typer(service_commands, name="service")
app.add_typer(token_commands, name="token")
app.add_typer(vault_commands, name="vault")
app.command("cluster-key")(cluster_key_command)
app.command("doctor")(doctor_command)
app.command("health")(health_command)
app.command("backup")(backup_command)
app.command("restore")(restore_command)
app.command("recover")(recover_command)


def _show_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        say(f"leasehold {version('leasehold')}")
        raise typer.Exit


@app.callback()
def leasehold(
    version: Annotated[  # noqa: ARG001 - its callback shows it
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
    credentials: Annotated[
        Path | None,
        typer.Option(
            "--credentials",
            envvar=CREDENTIALS_VARIABLE,
            help="A file that `token create` made: where the cluster is, and who asks.",
        ),
    ] = None,
) -> None:
    """Leasehold: replicated tables on the local disks of a few machines, for Spark."""
    if credentials is not None:
        os.environ[CREDENTIALS_VARIABLE] = str(credentials)


# ---------------------------------------------------------------- a cluster on this machine


@app.command()
def down(directory: Dir = DEFAULT_DIR, output: Out = Output.TABLE) -> None:
    """Stop every process of the cluster here; the data stays."""
    from leasehold.local.processes import LocalCluster

    stopped = LocalCluster(directory).down()
    text = "stopped " + ", ".join(stopped) if stopped else "nothing was running"
    show_answer(output, {"stopped": stopped}, text)


@app.command()
def status(
    directory: Dir = DEFAULT_DIR,
    tables: Annotated[
        bool, typer.Option("--tables", help="Show the copies of each table instead, and what is at risk.")
    ] = False,
    user: User = None,
    output: Out = Output.TABLE,
) -> None:
    """Show the coordinators, the nodes and their leases, as the leader sees them."""
    if tables:
        from leasehold.cli.tables import show_copies

        show_copies(directory, user, output)
        return
    from leasehold.cli.login import connected
    from leasehold.cli.status import show_cluster
    from leasehold.client.coordinators import Coordinators

    with connected(Coordinators, directory, user) as cluster:
        show_cluster(cluster, output)


@app.command()
def logs(
    node: NodeName,
    directory: Dir = DEFAULT_DIR,
    lines: Annotated[
        int, typer.Option("--lines", min=1, max=100_000, help="The number of lines, counted from the end.")
    ] = 50,
    output: Out = Output.TABLE,
) -> None:
    """Print the end of a process's log."""
    from leasehold.local.processes import LocalCluster

    process = LocalCluster(directory).node(node)
    if not process.log.exists():
        raise NotFound(f"{process.name} has no log yet", hint=f"start it with `leasehold chaos start {node}`")
    last = process.log.read_text(errors="replace").splitlines()[-lines:]
    show_answer(output, {"node": process.name, "lines": last}, *last)


# ---------------------------------------------------------------- statements


@app.command()
def sql(
    statement: Annotated[str, typer.Argument(help="One SQL statement; `-` reads it from stdin.")],
    *,
    directory: Dir = DEFAULT_DIR,
    user: User = None,
    output: Annotated[
        RowsOutput,
        typer.Option("--output", "-o", help="A table for people, JSON for programs; for a SELECT also csv or parquet."),
    ] = RowsOutput.TABLE,
    to: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the rows of a SELECT to this file.")] = None,
    statement_id: Annotated[
        str | None, typer.Option("--id", help="Ask again for the statement with this id; it is never run twice.")
    ] = None,
    timeout: Annotated[
        str | None,
        typer.Option(
            help="How long to retry while no process answers (exit 5 or 4), such as 2s; 30s by default. If it is given,"
            " a definition waits no longer than this for its turn and for nodes. A statement that removes something is"
            " then rolled back (exit 3). A committed statement reports the pending nodes (exit 6)."
        ),
    ] = None,
) -> None:
    """Run one statement or SELECT. If interrupted, it shows the id with which to ask for the outcome.

    A SELECT runs in this process. As a table, 200 of its rows are shown; in the other forms, all of them.
    """
    from leasehold.cli.sql import run_statement

    given = StatementId(statement_id) if statement_id else None
    code = run_statement(directory, user, statement, statement_id=given, timeout=timeout, output=output, to=to)
    if code is not ExitCode.DONE:
        raise typer.Exit(int(code))


@app.command()
def compact(
    table: Annotated[str, typer.Argument(help="The table, as database.table.")],
    directory: Dir = DEFAULT_DIR,
    user: User = None,
    timeout: Asking = None,
    output: Out = Output.TABLE,
) -> None:
    """Remove deleted and expired rows from a table's files, and join small files."""
    from leasehold.cli.compact import compact as run

    run(directory, user, table, output, timeout)


@app.command()
def scrub(
    table: Annotated[str | None, typer.Argument(help="The table, as database.table; all tables if left out.")] = None,
    directory: Dir = DEFAULT_DIR,
    user: User = None,
    timeout: Asking = None,
    output: Out = Output.TABLE,
) -> None:
    """Have all nodes read their segment files whole, and replace damaged ones by another node's copy.

    Exit 1 if a damaged segment could not be replaced or a file is missing, 5 if a node was not scrubbed to the end.
    Nothing is lost if it is interrupted: run it again.
    """
    from leasehold.cli.scrub import scrub as run

    code = run(directory, user, table, output, timeout)
    if code is not ExitCode.DONE:
        raise typer.Exit(int(code))


@app.command()
def rebalance(  # noqa: PLR0917 typer takes the options from the signature
    directory: Dir = DEFAULT_DIR,
    user: User = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would move, and move nothing.")] = False,
    stop: Annotated[bool, typer.Option("--stop", help="Stop a rebalance that is under way.")] = False,
    wait_too: Annotated[bool, typer.Option("--wait", help="Wait until nothing moves any more.")] = False,
    timeout: Annotated[str, typer.Option(help="How long to wait at most, as 10m.")] = "1h",
    output: Out = Output.TABLE,
) -> None:
    """Move buckets to nodes that hold less. Shows the plan first. It goes on behind the command.

    With --wait, exit 5 if buckets still move after `--timeout`; they go on. The command may be run again.
    """
    from leasehold.cli.rebalance import rebalance as run
    from leasehold.cli.statement import read_timeout_ns

    wait_ns = read_timeout_ns(timeout) if wait_too else None
    run(directory, user, dry_run=dry_run, stop=stop, wait_ns=wait_ns, output=output)


@app.command()
def forget_lost(
    table: Annotated[str, typer.Argument(help="The table, as database.table.")],
    directory: Dir = DEFAULT_DIR,
    user: User = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for a confirmation.")] = False,
    timeout: Asking = None,
    output: Out = Output.TABLE,
) -> None:
    """Give up the rows of a table that no node holds any more, so that the other rows can be read. Asks first."""
    from leasehold.cli.forget import forget

    forget(directory, user, table, yes=yes, output=output, timeout=timeout)


@app.command()
def verify(directory: Dir = DEFAULT_DIR, user: User = None, timeout: Asking = None, output: Out = Output.TABLE) -> None:
    """Check the batches in the serve logs against the receipts; exit 1 if a batch was stale.

    Each batch must have been released before the deadline of its lease, on a view as new as its grant required.
    The logs keep the last 128 MiB of each node, the receipts the last 10,000 statements.
    """
    from leasehold.cli.verify import verify as run

    found = run(directory, user, timeout)
    value = {"batches": found.batches, "statements": found.statements, "stale_serves": found.stale_serves}
    stale = f"{found.stale_serves} stale" if found.batches else "nothing to check, so nothing stale"
    show_answer(output, value, f"{found.batches} logged batches against {found.statements} known statements: {stale}")
    for one in found.examples:
        serve = one.serve
        where = f"node {serve.node} released a batch of table {serve.table} at view {serve.view}"
        note(f"stale: {where}: {one.because.value}")
    if found.stale_serves:
        raise typer.Exit(int(ExitCode.CHECK_FAILED))


# ---------------------------------------------------------------- single processes


@app.command()
def coordinator(
    *,
    directory: CoordinatorDir = None,
    listen: Listen = None,
    advertise: Advertise = None,
    seeds: Seeds = None,
    cluster_key: ClusterKey = None,
    gossip: Gossip = None,
    tls: Tls = None,
    meta: Meta = None,
    meta_ca: MetaCa = None,
    meta_cert: MetaCert = None,
    meta_key: MetaKey = None,
    meta_user: MetaUser = None,
    meta_password_file: MetaPasswordFile = None,
    meta_quota: MetaQuota = None,
    restart: Restart = RestartWhen.ON_FAILURE,  # noqa: ARG001 - as in `node start`
    config: ConfigFile = None,
) -> None:
    """Run one coordinator until a signal stops it."""
    from leasehold.cli.config import coordinator_config
    from leasehold.cli.serve_coordinator import run_coordinator

    given = {
        "dir": directory,
        "listen": listen,
        "advertise": advertise,
        "seeds": seeds,
        "cluster_key": cluster_key,
        "gossip": gossip,
        "tls": tls,
        "meta": meta,
        "meta_ca": meta_ca,
        "meta_cert": meta_cert,
        "meta_key": meta_key,
        "meta_user": meta_user,
        "meta_password_file": meta_password_file,
        "meta_quota": meta_quota,
    }
    run_coordinator(coordinator_config(config, given))


@app.command()
def init(
    coordinator_address: Annotated[str, typer.Argument(metavar="HOST:PORT", help="A coordinator's address.")],
    timeout: Asking = None,
    output: Out = Output.TABLE,
) -> None:
    """Create a cluster: give the meta storage of a new coordinator its cluster id, once."""
    from leasehold.cli.statement import read_timeout_s
    from leasehold.client.coordinators import Coordinators

    asked_for_s = read_timeout_s(timeout)
    with Retrying() as told, Coordinators(coordinator_address, timeout=asked_for_s, on_retry=told.update) as cluster:
        facts = cluster.initialise()
    show_answer(output, {"cluster_id": facts.cluster_id}, f"cluster {facts.cluster_id}")


def main() -> None:
    """Entry point of `leasehold`."""
    try:
        app(standalone_mode=True)
    except SystemExit as end:
        if not isinstance(end.code, int | None):
            raise
        _leave(end.code or 0)
    except LeaseholdError as error:
        _leave(report(error))
    except OSError as error:
        _leave(report(_of_this_machine(error)))


def _leave(code: int) -> NoReturn:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(OSError):
        sys.stdout.flush()
    # Without the interpreter's shutdown: worker threads of gRPC must not delay an exit that is decided, nor may Ctrl-C
    # change it.
    os._exit(code)


def _of_this_machine(error: OSError) -> LeaseholdError:
    """The error of a file, disk or descriptor that no other code expects."""
    where = f"{error.filename}: " if error.filename else ""
    hint = "check that path, its permissions and the disk" if error.filename else "check the disk and the limits"
    return LeaseholdError(f"{where}{error.strerror or error}", code=ErrorCode.OS_ERROR, hint=hint)


if __name__ == "__main__":
    main()
