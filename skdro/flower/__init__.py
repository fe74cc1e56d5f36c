"""Between sites: the federated estimators on Flower (extra ``flower``), by the same two steps as in one process.

A study is three short files around `make_client_app` and `make_server_app`; `examples/flower_quickstart` is one to
copy, and `doc/federation.md` says what a site should check before it joins.  Flower itself is imported when an app
is made, so that a saved model needs none.
"""

from ._apps import make_client_app, make_server_app
from ._local_grid import LocalGrid

__all__ = ["LocalGrid", "make_client_app", "make_server_app"]
