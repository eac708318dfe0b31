"""Scratch databases: what a dry-run works on in place of the project's own.

Each is an SQLite file, private to one process, with the project's tables and the rows of a snapshot. The order is
`template()`, once; in each child just after its fork `replace_databases()`; then `fill()`. What a scratch database has
otherwise than the live one is never an exception that ends the run, and never silent: it is a listed `Difference`.

SQLite has one writer at a time: where a thread writes while another one of the same job is in a transaction that has
written, the second one waits for five seconds, and fails. What a body asks of PostgreSQL alone, such as an array's
`contains`, DISTINCT ON or an advisory lock, is an error of the database.

The package is a database backend of Django's, too: its name is the ENGINE of what `replace_databases()` sets up.
"""

from .databases import replace_databases
from .differences import Difference, Kind
from .filling import Filled, fill
from .schema import Template, template

__all__ = ["Difference", "Filled", "Kind", "Template", "fill", "replace_databases", "template"]
