"""The cluster that is there, or a local one for the time being."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .._arrays import cores
from ..errors import InputError, ParameterError, StreamGPError
from .partitions import UNCHANGED


def result(client: Any, task: Any) -> Any:
    """Compute on the cluster; whatever goes wrong there is one documented error, and nothing was learned."""
    try:
        return client.compute(task, sync=True, optimize_graph=True)
    except StreamGPError:
        raise
    except Exception as error:  # of the user's own tasks, or of the cluster
        raise InputError(
            f"a partition could not be computed: {type(error).__name__}: {error}. {UNCHANGED}"
        ) from error


@contextmanager
def client_or_local() -> Iterator[Any]:
    """Yield the present client, or that of a temporary local cluster with a process for each core."""
    try:
        from distributed import Client, get_client
    except ImportError as error:
        raise ParameterError(
            "Dask collections need Dask's scheduler: pip install 'streamgp[dask]'"
        ) from error
    try:
        here = get_client()
    except ValueError:
        here = None
    if here is not None:
        yield here
        return
    with local_cluster() as cluster, Client(cluster) as client:
        yield client


def local_cluster(n_workers: int | None = None, **more: Any) -> Any:
    """Return a local cluster with a process for each core, for its with-block.

    Its workers keep the memory that they free: Dask's own hand every large array back to the system at once, and
    getting fresh pages for the next one takes longer than filling it.
    """
    import dask
    from distributed import LocalCluster

    names = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_")
    with dask.config.set({f"distributed.nanny.pre-spawn-environ.{name}": 2**28 for name in names}):
        return LocalCluster(
            n_workers=n_workers or cores(), threads_per_worker=1, dashboard_address=":0", **more
        )
