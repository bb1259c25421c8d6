"""Patches find their code after a move and in another layout, and report code that is not there exactly once."""

import ast
from pathlib import Path

import pytest

from tests.mutants.patch import Code, Edit, Stale

LAMP = '''
class Lamp:
    """A lamp."""

    limit: int = 3

    @property
    def lit(self) -> bool:
        """Whether it is lit."""
        return self._power > 0 and not self._broken

    def set(self, power: int) -> None:
        if power > self.limit:
            raise ValueError(power, self.limit)
        self._power = power
        self._log("set", power=power, limit=self.limit)

    def off(self) -> None:
        self._power = 0
'''
TWICE = Edit("Lamp.set", "self.limit", "4")
DARK = Edit("Lamp.set", "self._power = power", "self._power = 0")


def write(package: Path, **modules: str) -> Path:
    """`folder__name` is the module `name` in `folder`."""
    for name, text in modules.items():
        file = (package / name.replace("__", "/")).with_suffix(".py")
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return package


def patched(package: Path, *edits: Edit) -> str:
    """The only statement that is changed."""
    (tree,) = Code(package).patched(edits).values()
    return ast.unparse(tree)


@pytest.mark.parametrize(
    ("edit", "sound", "broken"),
    [
        (Edit("Lamp.lit", "self._power > 0", "False"), "self._power > 0", "False"),
        (Edit("Lamp.lit", "not self._broken", "... or True"), "not self._broken", "not self._broken or True"),
        (DARK, "= power\n", "= 0\n"),
        (Edit("Lamp.set", "power=power", "power=None"), "power=power", "power=None"),
        (Edit("Lamp.set", "limit=self.limit", ""), ", limit=self.limit", ""),
        (Edit("Lamp.set", "raise ValueError(power, self.limit)", ""), "raise ValueError(power, self.limit)", "pass"),
        (Edit("Lamp.set", "self._power = power", "...; ..."), "= power\n", "= power\n        self._power = power\n"),
        (
            Edit("Lamp.off", "self._power = 0", "if self.lit: ..."),
            "self._power = 0",
            "if self.lit:\n            self._power = 0",
        ),
        (Edit("Lamp.set", "if power > self.limit: ...", "if power < 0: ..."), "if power > self.limit", "if power < 0"),
        (
            Edit("Lamp.set", "def set(self, power: int) -> None: ...", "def set(self, power=1): ..."),
            "power: int) -> None",
            "power=1)",
        ),
        (
            Edit("Lamp.lit", "@property\ndef lit(self) -> bool: ...", "def lit(self) -> bool: ..."),
            "@property\n    ",
            "",
        ),
        (Edit("Lamp", "limit: int = 3", "limit: int = 4"), "limit: int = 3", "limit: int = 4"),
        (Edit("Lamp", "", "def on(self):\n    self.set(1)"), "= 0", "= 0\n\n    def on(self):\n        self.set(1)"),
    ],
    ids=lambda one: one.before or one.after if isinstance(one, Edit) else "",
)
def test_a_fragment_is_replaced(tmp_path: Path, edit: Edit, sound: str, broken: str) -> None:
    text = ast.unparse(ast.parse(LAMP))
    assert text.count(sound) == 1
    assert patched(write(tmp_path, lamp=LAMP), edit) == text.replace(sound, broken)


def test_several_edits_follow_each_other(tmp_path: Path) -> None:
    package = write(tmp_path, lamp=LAMP)
    assert "= 5\n" in patched(package, DARK, Edit("Lamp.set", "self._power = 0", "self._power = 5"))


def test_a_definition_that_was_moved_is_found(tmp_path: Path) -> None:
    before = write(tmp_path / "before", lamp=LAMP, other="")
    after = write(tmp_path / "after", lamp="from other import Lamp", lights__other="LIMIT = 3\n" + LAMP)
    assert patched(after, DARK) == patched(before, DARK)


@pytest.mark.parametrize(
    "layout",
    [
        LAMP.replace("self._power = power", "self._power = (  # as asked\n            power\n        )"),
        LAMP.replace("self._power = power", "# as asked\n        self._power=power"),
        LAMP.replace("    ", "  "),
    ],
)
def test_another_layout_and_comments_do_not_matter(tmp_path: Path, layout: str) -> None:
    assert layout != LAMP
    package, other = write(tmp_path / "package", lamp=LAMP), write(tmp_path / "other", lamp=layout)
    assert patched(other, DARK) == patched(package, DARK)


def test_a_docstring_does_not_matter(tmp_path: Path) -> None:
    edit = Edit("Lamp", "@property\ndef lit(self) -> bool:\n    return self._power > 0 and not self._broken", "")
    assert "lit" not in patched(write(tmp_path, lamp=LAMP), edit)


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (Edit("Lamp.off", "self._power = 1", ""), "in Lamp.off this occurs 0 times"),
        (TWICE, "in Lamp.set this occurs 3 times"),
        (Edit("Lamp.on", "self", "None"), "Lamp.on is defined 0 times"),
        (Edit("LIMIT", "3", "4"), "LIMIT is defined 2 times"),
        (Edit("garden.Lamp", "3", "4"), "garden.Lamp is defined 0 times"),
    ],
)
def test_code_that_is_not_there_exactly_once_is_reported(tmp_path: Path, edit: Edit, said: str) -> None:
    package = write(tmp_path, lamp=LAMP, house__limits="LIMIT = 3", garden__limits="LIMIT: int = 3")
    with pytest.raises(Stale, match=said):
        Code(package).apply((DARK, edit))
    assert (package / "lamp.py").read_text(encoding="utf-8") == LAMP


def test_a_folder_tells_two_definitions_of_one_name_apart(tmp_path: Path) -> None:
    package = write(tmp_path, house__limits="LIMIT = 3", garden__limits="LIMIT: int = 3")
    assert Code(package).apply((Edit("garden.LIMIT", "3", "4"),)) == {package / "garden" / "limits.py"}
    assert (package / "garden" / "limits.py").read_text(encoding="utf-8") == "LIMIT: int = 4"
