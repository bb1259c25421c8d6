"""What a leader does behind all statements.

| question | module |
| --- | --- |
| expiry, buckets, leftovers | `housekeeping` |
| how much history stays | `retention` |
| receipts of answered statements | `receipts` |
| records that nobody has decoded | `scrub` |
| how far the wall clock is believed | `wallclock` |
"""
