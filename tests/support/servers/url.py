"""Databases of engine `sql`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from contract.test_kinds import (  # noqa: F401
    DOCUMENTS,
    KINDS,
    MEASURES,
    test_a_limit_without_an_order,
    test_aggregates,
    test_conditions_on_text_ids,
    test_documents_come_back_by_their_ids,
    test_each_operator_compares_as_python_does,
    test_histograms,
    test_order_limit_and_ties,
    test_plans_are_told,
    test_ranges,
    test_scans_go_in_the_order_of_ids,
    test_wrong_questions_are_refused,
)
from contract.test_verbs import (  # noqa: F401
    EVERY,
    test_an_id_is_overwritten_and_never_doubled,
    test_documents_with_other_fields_are_refused,
    test_every_document_comes_back,
    test_kinds_that_were_not_created,
    test_missing_and_repeated_ids,
    test_only_the_fields_of_the_study,
    test_range_is_what_a_look_at_all_gives,
    test_threads_write_and_read_side_by_side,
    test_update_and_delete_where_the_flags_allow,
)
from support.servers.stores import Target

from storewise.engines.server import Credentials

if TYPE_CHECKING:
    from support.servers.stores import Clusters


def url_of(backend: str, clusters: Clusters, directory: Path) -> str:
    """The URL of a running database, with its password."""
    if backend == "sqlite":
        return f"sqlite:///{directory / 'store.db'}"
    cluster = clusters.fresh(Target(backend, 1, (("layout", "columns"),)))
    assert cluster.credentials is not None
    secrets = Credentials.read(cluster.credentials)
    place = f"{cluster.endpoints[0].address}:{cluster.endpoints[0].port}"
    driver, database = {
        "postgres": ("postgresql+psycopg", "postgres"),
        "mariadb": ("mysql+pymysql", "storewise"),
    }[backend]
    return f"{driver}://{secrets.user}:{secrets.password}@{place}/{database}"
