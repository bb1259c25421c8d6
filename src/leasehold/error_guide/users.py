"""Codes of users, passwords and rights."""

from leasehold.error_codes import ErrorCode
from leasehold.error_guide.entry import GuideEntry

USERS = {
    ErrorCode.BAD_PASSWORD: GuideEntry("a password is empty or too long", "choose another password"),
    ErrorCode.FORBIDDEN: GuideEntry("the user lacks a right", "ask a user with ALTER ON CLUSTER to GRANT the right"),
    ErrorCode.LAST_ADMINISTRATOR: GuideEntry(
        "the user is the last one with ALTER ON CLUSTER",
        "GRANT ALTER ON CLUSTER TO another user first",
    ),
    ErrorCode.NO_USERS: GuideEntry(
        "the cluster has no users, so no login is possible",
        "connect without a user, or CREATE USER first",
    ),
    ErrorCode.ROLE_IN_USE: GuideEntry("users still have the role", "REVOKE ROLE name FROM each of those users first"),
    ErrorCode.TOO_MANY_PRINCIPALS: GuideEntry(
        "the cluster has as many users and roles as it can have",
        "drop users or roles that nobody needs",
    ),
    ErrorCode.TOO_MANY_ROLES: GuideEntry("the user has as many roles as a user can have", "REVOKE ROLE makes room"),
    ErrorCode.UNAUTHENTICATED: GuideEntry(
        "the cluster has users, and the request came without a valid login",
        "name a user with --user or LEASEHOLD_USER, and the password with LEASEHOLD_PASSWORD",
    ),
    ErrorCode.WRONG_PASSWORD: GuideEntry("the user or the password is wrong", "check both, then log in again"),
}
