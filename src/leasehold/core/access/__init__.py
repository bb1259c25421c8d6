"""Who may do what, and who proves to be whom by a password.

| question | module |
| --- | --- |
| who may do what | `rights` |
| which logins exist | `logins` |
| whose password is checked next | `password_queue` |
| from where names have come | `peers_of_names` |
| whose turn it is at a shared resource | `fair_queue` |
"""
