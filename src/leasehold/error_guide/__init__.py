"""The guide to error codes: what each means, what to do, and how a command ends by it. `docs/errors.md` shows it."""

from collections.abc import Mapping
from typing import Final

from leasehold.error_codes import ErrorCode
from leasehold.error_guide.directories import DIRECTORIES
from leasehold.error_guide.entry import GuideEntry
from leasehold.error_guide.nodes import NODES
from leasehold.error_guide.peers import PEERS
from leasehold.error_guide.processes import PROCESSES
from leasehold.error_guide.queries import QUERIES
from leasehold.error_guide.rows import ROWS
from leasehold.error_guide.statements import STATEMENTS
from leasehold.error_guide.users import USERS

SECTIONS: Final[Mapping[str, Mapping[ErrorCode, GuideEntry]]] = {
    "SQL statements": STATEMENTS,
    "Queries and views": QUERIES,
    "Reading and writing rows": ROWS,
    "Users and rights": USERS,
    "Commands and processes": PROCESSES,
    "Nodes": NODES,
    "Directories and disks": DIRECTORIES,
    "Between processes": PEERS,
}
"""The codes by subject, each in one section."""

GUIDE: Final[Mapping[ErrorCode, GuideEntry]] = {code: one for part in SECTIONS.values() for code, one in part.items()}
