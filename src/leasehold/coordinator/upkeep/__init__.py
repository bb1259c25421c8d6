"""Work of a leader in the background.

| question | module |
| --- | --- |
| expiry and leftovers | `housekeeping` |
| how much history is kept | `retention` |
| receipts of answered statements | `receipts` |
| check of records that were not decoded | `scrub` |
| how far the wall clock is believed | `wallclock` |
"""
