"""What a finding of `leasehold doctor` has to say."""

from leasehold.cli.checkup.finding import HostFinding


def is_wrong(finding: HostFinding, *words: str) -> None:
    """Something is wrong, with what to do about it; these words are in there."""
    assert not finding.ok
    assert finding.hint
    assert all(word in finding.text + finding.hint for word in words), finding
