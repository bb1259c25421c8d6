"""Bounds of users, passwords and logins."""

from typing import Final

from leasehold.limits.units import MILLISECOND_NS, SECOND_NS

PRINCIPALS_MAX: Final = 10_000
"""Users and roles."""
ROLES_PER_USER_MAX: Final = 64
PASSWORD_CHARACTERS_MAX: Final = 1_024
LOGIN_CHARACTERS_MAX: Final = 16 * PASSWORD_CHARACTERS_MAX
"""Of a name or a password that is shown: a longer one is not decoded."""
PASSWORD_TIME_COST: Final = 2
"""Passes of argon2id over its memory: a password costs about 50 ms and 19 MiB (OWASP's least, RFC 9106)."""
PASSWORD_MEMORY_KIB: Final = 19 * 1024
PASSWORD_LANES: Final = 1
PASSWORDS_AT_ONCE: Final = 2
"""Passwords that a leader hashes or checks at the same time."""
PASSWORDS_WAITING_MAX: Final = 160
"""Passwords that wait to be checked, in the lanes of core/access/password_queue.py."""
WRONG_PASSWORD_REST_MIN_NS: Final = 250 * MILLISECOND_NS
"""How late a wrong password is answered; twice as late after each further one for the same name."""
WRONG_PASSWORD_REST_MAX_NS: Final = 4 * SECOND_NS
WRONG_PASSWORD_RECENT_NS: Final = 60 * SECOND_NS
"""How long a user's name with a wrong password is kept out of the lane for users without one. From an address from
which the right one has come it is not."""
WRONG_PASSWORDS_KEPT: Final = 4_096
"""Names of users, and as many other names, whose wrong passwords are counted."""
NAMES_WITH_PEERS_MAX: Final = 4_096
"""Names of which it is remembered from where they have come, the newest."""
PEERS_OF_NAME_MAX: Final = 32
"""Addresses from which one of them has come, the newest."""
LOGINS_PER_USER_MAX: Final = 1_024
"""A further login ends the oldest of the user."""
LOGINS_MAX: Final = 16_384
"""A further login ends the PURGE_BATCH oldest of all."""
LOGINS_AT_ONCE: Final = 16
"""Logins of one user among the writes of a leader at the same time; others wait, and other users do not."""
TOKENS_PER_USER_MAX: Final = 64
TOKENS_MAX: Final = 4_096
LOG_OUT_TIMEOUT_NS: Final = 250 * MILLISECOND_NS
"""How long a client that closes waits to have logged out."""
COORDINATOR_PROOF_NS: Final = SECOND_NS
"""How long a client relies on a coordinator's proof before it asks for another one."""
LOGIN_TTL_NS: Final = 24 * 3600 * SECOND_NS
"""How long a login holds, from when the leader made it or found it."""
DELEGATED_TTL_NS: Final = 30 * 60 * SECOND_NS
"""How long a delegated login of an application holds after its driver has renewed it."""
DELEGATED_RENEW_REST_NS: Final = 5 * SECOND_NS
"""A leader answers a further renewal of an application within this time as it has answered the last one."""
DELEGATED_RENEW_NS: Final = 5 * 60 * SECOND_NS
"""How often a driver renews them."""
LOGINS_END_NS: Final = 5 * SECOND_NS
"""For how long a driver that ends asks that they end: when a leader has died, another one leads in less."""
