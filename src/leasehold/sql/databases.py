"""CREATE, ALTER and DROP DATABASE."""

from leasehold.core.words.statements import AlterDatabase, CreateDatabase, DropDatabase
from leasehold.sql.cursor import Cursor
from leasehold.sql.properties import database_properties, read_keys, read_properties


def create_database(cursor: Cursor) -> CreateDatabase:
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.database()
    comment = ""
    properties: dict[str, str] = {}
    said: set[str] = set()
    while cursor.form:
        if cursor.once(said, "COMMENT", "WITH") == "COMMENT":
            comment = cursor.comment()
        else:
            cursor.expect("DBPROPERTIES")
            properties = database_properties(read_properties(cursor))
    return CreateDatabase(name=name, if_not_exists=if_not_exists, comment=comment, properties=properties)


def alter_database(cursor: Cursor) -> AlterDatabase:
    name = cursor.database()
    if cursor.choose("SET", "UNSET") == "SET":
        cursor.expect("DBPROPERTIES")
        return AlterDatabase(name=name, properties={**database_properties(read_properties(cursor))})
    cursor.expect("DBPROPERTIES")
    if_exists = cursor.accept("IF", "EXISTS")
    return AlterDatabase(name=name, properties=dict.fromkeys(read_keys(cursor)), if_exists=if_exists)


def drop_database(cursor: Cursor) -> DropDatabase:
    if_exists = cursor.accept("IF", "EXISTS")
    name = cursor.database()
    return DropDatabase(name=name, if_exists=if_exists, cascade=cursor.accept("CASCADE"))
