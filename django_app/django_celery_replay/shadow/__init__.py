"""Shadow databases: what a dry run works on where the project's SQL is PostgreSQL's own.

A shadow is one connection to the live server, in one transaction that is never committed: temporary copies of the
tables that the run works on, with the rows of a snapshot, stand before the live ones, which can only be read. The
order is `places.probe()`, once; in each child `session.open_all()`, just after its fork; then, behind the lock,
`start.begin_all()` and `scratch.fill()`, and at the end `start.told()`. Importing it needs no driver.

What holds are, from the outside in: the rights of its role, a READ ONLY transaction, and its end by a rollback. The
guard in front of the driver refuses what would end that transaction, and what a rollback does not take back.

The package is a database backend of Django's, too: its name is the ENGINE of what stands in for a live database.
"""
