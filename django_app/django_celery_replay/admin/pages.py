"""What all pages have in common: they are read, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from django.contrib import admin
from django.contrib.admin.utils import quote, unquote
from django.core.exceptions import PermissionDenied
from django.db.models import Model, Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.views.decorators.http import require_safe

from ..conf import know_secrets
from ..tables import Table
from .display import column
from .listing import NewestFirst
from .reading import one, stored


class RecordAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """Lists one table's records and shows each on a page of its own."""

    table: ClassVar[Table[Any]]
    large: ClassVar[Sequence[str]] = ()
    """Columns that a list leaves in the database."""
    detail_template: ClassVar[str]

    actions = None
    list_filter: ClassVar[Any] = ()
    sortable_by = ()
    search_fields = ("pk",)
    show_full_result_count = False
    if hasattr(admin, "ShowFacets"):  # since Django 5.0
        show_facets = admin.ShowFacets.NEVER

    class Media:
        css = {"all": ["django_celery_replay/admin.css"]}

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Refuse: only jobs write records."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Refuse: what was recorded stays as it is."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Refuse: records go when their time is over."""
        return False

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest | None = None) -> bool:
        """Refuse conditions in the address that no filter makes: they could guess at payloads, letter by letter."""
        return lookup in {each.parameter_name for each in self.list_filter}

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[NewestFirst]:
        """Return the list that needs no counting."""
        return NewestFirst

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return the rows of a list."""
        rows: QuerySet[Any] = stored(self.model).defer(*self.large)
        return rows

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        """Return a row with all its columns."""
        return one(self.model, object_id)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Find what begins with a text."""
        term = search_term.strip()
        return (queryset.filter(self.found(term)) if term else queryset), False

    def found(self, term: str) -> Q:
        """Return the condition for a search."""
        raise NotImplementedError

    def complete(self, page: Sequence[Any]) -> None:
        """Add to a list's rows what other tables have, in one query for all."""

    @method_decorator(require_safe)
    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """Show the list."""
        know_secrets()
        return super().changelist_view(request, extra_context)

    @method_decorator(require_safe)
    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        """Show one record, to whoever may see this kind."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        know_secrets()
        row = self.get_object(request, unquote(object_id))
        if row is None:
            raise Http404(f"No {self.opts.verbose_name} has this key. Records go when their time is over.")
        request.current_app = self.admin_site.name
        context = {
            **self.admin_site.each_context(request),
            "title": str(self.opts.verbose_name).capitalize(),
            "subtitle": column(row.pk),
            "opts": self.opts,
            "media": self.media,
            **self.details(self.table.record_of(row), request.user.has_perm("django_celery_replay.view_payload")),
        }
        return TemplateResponse(request, self.detail_template, context)

    def details(self, record: Any, payload: bool) -> Mapping[str, Any]:
        """Return what the page shows of a record.

        Args:
            payload: may the reader see payloads and results?
        """
        raise NotImplementedError

    def link(self, model: type[Model], pk: str, text: str) -> SafeString:
        """Return a link to a record's page.

        Args:
            pk: the key as it is stored.
        """
        name = f"{self.admin_site.name}:{model._meta.app_label}_{model._meta.model_name}_change"
        return format_html('<a href="{}">{}</a>', reverse(name, args=[quote(pk)]), text)
