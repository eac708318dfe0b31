"""How `make docs` builds the documentation."""

import django
from django.conf import settings

# Models can't be imported otherwise.
settings.configure(INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth", "django_celery_replay"])
django.setup()

project = "celery-replay"
author = copyright = "celery-replay contributors"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
source_suffix = {".md": "markdown"}
myst_enable_extensions = ["colon_fence", "deflist", "fieldlist"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "description"
# The types of others, our type variables, and what the page of errors tells of.
nitpick_ignore_regex = [
    ("py:class", r"(collections|contextlib|celery_replay|django)\..*|.*\b[PR]|Runtime"),
    ("py:exc", ".*"),
]

html_theme = "furo"
html_title = "celery-replay"
html_static_path = ["_static"]
html_css_files = ["console.css"]
