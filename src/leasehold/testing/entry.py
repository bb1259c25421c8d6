"""Entry point of `leasehold-sim`: loads the simulator only once Ctrl-C can end it quietly."""

from leasehold.cli.entry import end_quietly_on_interrupt


def main() -> None:
    """Entry point of `leasehold-sim`."""
    end_quietly_on_interrupt()
    from leasehold.testing.command import main as run

    run()
