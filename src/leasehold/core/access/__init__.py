"""Who may do what: rights, logins, and whose password is checked next."""
