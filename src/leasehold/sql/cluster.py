"""ALTER CLUSTER and ALTER NODE."""

from leasehold.core.ddl.settings import SETTINGS, read_value, setting_named
from leasehold.core.words.statements import AlterCluster, AlterNode, Rebalance, RevokeCertificate
from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.ids import IDENTIFIER, NODE_NAME, read_serial
from leasehold.sql.cursor import Cursor

_VALUES = {"'": True, "9": False}
"""The forms of a value, and whether it is in quotes."""


def alter_cluster(cursor: Cursor) -> AlterCluster | Rebalance | RevokeCertificate:
    match cursor.choose("SET", "REBALANCE", "STOP", "REVOKE", "UNREVOKE"):
        case "REBALANCE":
            return Rebalance(stops=False)
        case "STOP":
            cursor.expect("REBALANCE")
            return Rebalance(stops=True)
        case "REVOKE":
            return _certificate(cursor, revokes=True)
        case "UNREVOKE":
            return _certificate(cursor, revokes=False)
        case _:
            return _settings(cursor)


def _certificate(cursor: Cursor, *, revokes: bool) -> RevokeCertificate:
    cursor.expect("CERTIFICATE")
    at = cursor.at
    serial = read_serial(cursor.text())
    if serial is None:
        raise cursor.source.bad("the serial number of a certificate is expected", cursor.source.tokens[at].start)
    return RevokeCertificate(serial=serial, revokes=revokes)


def _settings(cursor: Cursor) -> AlterCluster:
    settings: dict[str, int] = {}
    while True:
        _setting(cursor, settings)
        if not cursor.form:
            assert len(settings) <= len(SETTINGS), "each at most once"
            return AlterCluster(settings=settings)
        cursor.expect(",")


def _setting(cursor: Cursor, settings: dict[str, int]) -> None:
    form, token = cursor.form, cursor.token()
    if form in _VALUES or IDENTIFIER.fullmatch(token.text) is None:
        raise cursor.source.bad("the name of a setting is expected", token.start)
    setting = setting_named(token.text)
    if setting.name in settings:
        raise Refused(f"{setting.name} is set twice", code=ErrorCode.SETTING_TWICE, hint="set each setting once")
    cursor.expect("=")
    interval = cursor.interval()
    if interval is None and cursor.form and cursor.form not in _VALUES:
        raise cursor.bad("a value is a text in quotes, a whole number or INTERVAL 3 SECONDS, so it can't be this")
    quoted = interval is not None or cursor.form == "'"
    settings[setting.name] = read_value(setting, interval or cursor.token().text, quoted=quoted)


def alter_node(cursor: Cursor) -> AlterNode:
    """A name may have dots and dashes, which are tokens of their own: it ends before the last word."""
    begin = cursor.at
    while cursor.ahead(1):
        cursor.token()
    tokens, text = cursor.source.tokens[begin : cursor.at], cursor.source.text
    what = cursor.choose("DRAIN", "UNDRAIN")
    name = text[tokens[0].start : tokens[-1].end + 1].strip("'`") if tokens else ""
    if NODE_NAME.fullmatch(name) is None:
        raise cursor.source.bad("the name or number of a node is expected", tokens[0].start if tokens else 0)
    return AlterNode(node=name, drains=what == "DRAIN")
