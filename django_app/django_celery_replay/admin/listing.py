"""Lists of tables that may be huge: no counting, no OFFSET, newest first."""

from __future__ import annotations

import re
from typing import Any

from django.contrib.admin.views.main import PAGE_VAR, ChangeList
from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpRequest

_PLACE = re.compile(r"([0-9]{1,16}),([^\x00]{1,255})")


class NewestFirst(ChangeList):
    """A list whose pages begin where the last one ended, so that each costs the same."""

    model_admin: Any
    older: str = ""
    """Query string of the next page, if there is one."""
    first_page: bool = True

    def get_ordering(self, request: HttpRequest, queryset: QuerySet[Any]) -> list[Any]:
        """Order by the one column that has an index for it."""
        return [f"-{self._time}", "-pk"]

    @property
    def _time(self) -> str:
        return str(self.model_admin.ordering[0]).removeprefix("-")

    def get_results(self, request: HttpRequest) -> None:
        """Read one page, and one row more to see whether that was all."""
        place = _PLACE.fullmatch(request.GET.get(PAGE_VAR, ""))
        queryset = self._after(int(place[1]), place[2]) if place else self.queryset
        found = list(queryset[: self.list_per_page + 1])
        page = found[: self.list_per_page]
        self.model_admin.complete(page)
        self.first_page = place is None
        self.older = self.get_query_string({PAGE_VAR: self._place(page[-1])}) if len(found) > len(page) else ""
        self.result_list = page
        self.result_count = self.full_result_count = len(page)
        self.paginator = Paginator(page, self.list_per_page)
        self.show_full_result_count = self.show_admin_actions = False
        self.can_show_all = self.multi_page = False

    def _after(self, at: int, pk: str) -> QuerySet[Any]:
        # Not as an OR, which no database would answer by the index.
        reached = self.queryset.filter(**{f"{self._time}__lte": at})
        rest: QuerySet[Any] = reached.exclude(**{self._time: at, "pk__gte": pk})
        return rest

    def _place(self, row: Any) -> str:
        at = row._meta.get_field(self._time).get_prep_value(getattr(row, self._time))
        return f"{at},{row.pk}"
