"""What people ask of a leader: logins, SHOW, status, receipts."""
