"""What a node serves over Flight.

| question | module |
| --- | --- |
| dispatch of tickets | `flight_service` |
| rows and bytes that arrive | `streams` |
| forwarding to peers | `peers` |
"""
