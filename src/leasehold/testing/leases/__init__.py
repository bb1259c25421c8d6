"""The lease world: production holders and grantors alone, one explicit step at a time, at the mercy of one seed."""
