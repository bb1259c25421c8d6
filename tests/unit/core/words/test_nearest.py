"""Which name somebody may have meant, and what it costs to look."""

import pytest

from leasehold.core.words import nearest as module
from leasehold.core.words.nearest import nearest
from leasehold.limits.statements import NEAREST_CHARACTERS_MAX, NEAREST_COMPARED_MAX


@pytest.mark.parametrize(
    ("name", "names", "meant"),
    [
        ("wether", ["orders", "Weather", "whether"], "did you mean whether or Weather?"),
        ("TMP", ["temp"], "did you mean temp?"),
        ("a", ["b", "A"], "did you mean A?"),
        ("customers", ["orders"], ""),
        ("customers", [], ""),
        ("", ["orders"], ""),
        ("event_7", [f"event_{one}" for one in range(500)], "did you mean event_7 or event_76 or event_75?"),
    ],
)
def test_near_names(name, names, meant):
    assert nearest(name, names) == meant


def test_few_names_are_compared_letter_by_letter_and_no_long_ones(monkeypatch):
    compared = []
    monkeypatch.setattr(module, "get_close_matches", lambda name, alike, n: compared.append((name, *alike)) or [])
    nearest("ab" * 100, ("ba" * 50 + str(one) for one in range(900)))
    (looked,) = compared
    assert len(looked) <= 1 + NEAREST_COMPARED_MAX
    assert max(map(len, looked)) <= NEAREST_CHARACTERS_MAX
