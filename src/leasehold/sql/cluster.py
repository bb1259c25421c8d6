"""ALTER CLUSTER SET: sqlglot's grammar does not know it, so it is read token by token, as the questions are."""

from leasehold.core.settings import SETTINGS, read_value, setting_named
from leasehold.core.statements import AlterCluster
from leasehold.errors import Refused
from leasehold.ids import IDENTIFIER
from leasehold.sql.front import Source

_VALUES = {"'": True, "9": False}
"""The forms of a value, and whether it stands in quotes."""


def alter_cluster(source: Source) -> AlterCluster | None:
    """The statement if it starts with ALTER CLUSTER, else None.

    Raises `BadStatement`, or `Refused` with code NO_SUCH_SETTING, FIXED_SETTING, BAD_SETTING or SETTING_TWICE.
    """
    if source.forms[:2] != ("ALTER", "CLUSTER"):
        return None
    _expect(source, 2, "SET")
    settings: dict[str, int] = {}
    at = 3
    while True:
        name = _token(source, at)
        if source.forms[at] in _VALUES or IDENTIFIER.fullmatch(name) is None:
            raise source.bad("the name of a setting is expected", source.tokens[at].start)
        setting = setting_named(name)
        if setting.name in settings:
            raise Refused(f"{setting.name} is set twice", code="SETTING_TWICE", hint="say once what it is to be")
        _expect(source, at + 1, "=")
        value = _token(source, at + 2)
        if source.forms[at + 2] not in _VALUES:
            text = "a value is a text in quotes or a whole number, so it can't be this"
            raise source.bad(text, source.tokens[at + 2].start)
        settings[setting.name] = read_value(setting, value, quoted=_VALUES[source.forms[at + 2]])
        if at + 3 == len(source.tokens):
            assert len(settings) <= len(SETTINGS), "each at most once"
            return AlterCluster(settings=settings)
        _expect(source, at + 3, ",")
        at += 4


def _token(source: Source, at: int) -> str:
    if at >= len(source.tokens):
        raise source.bad("something is missing", len(source.text))
    return source.tokens[at].text


def _expect(source: Source, at: int, form: str) -> None:
    _token(source, at)
    if source.forms[at] != form:
        raise source.bad(f"{form!r} is expected", source.tokens[at].start)
