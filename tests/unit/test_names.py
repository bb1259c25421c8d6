"""Names: a public class of the package means one thing, whoever imports it."""

import ast
from collections import defaultdict

from tests.sources import sources


def test_no_two_public_classes_have_one_name() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path, tree in sources().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(path))
    assert len(places) > 800
    assert {name: where for name, where in places.items() if len(where) > 1} == {}
