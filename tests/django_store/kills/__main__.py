"""Begin: models can be imported only once Django is set up."""

from __future__ import annotations

import os

import django

os.environ["DJANGO_SETTINGS_MODULE"] = "tests.django_settings"
django.setup()


def main() -> None:
    """Run the plan that comes in."""
    from tests.django_store.kills import lives

    lives.main()


if __name__ == "__main__":
    main()
