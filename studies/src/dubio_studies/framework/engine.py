"""Engines: where the pieces of a study are computed.

Pieces go to worker processes or to a Dask cluster by joblib, or to a Ray cluster; their rows come
back in any order and are stored by the one process that started them. Cluster workers need dubio,
but no shared disk.
"""

import math
import os
import platform
import threading
import time
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, final

import numpy as np
import torch
from threadpoolctl import threadpool_limits

import dubio
from dubio.data import DataError
from dubio_studies.framework.rows import Scalar
from dubio_studies.framework.study import Measurement, Piece, Seed

Work = tuple[Piece, Seed]
Call = tuple[Any, Any, Piece, Seed]  # the arguments of `compute`

NAMES = ("local", "dask", "ray")

_one_at_a_time = threading.Lock()  # a cluster's worker may run several threads


class EngineError(Exception):
    """An engine that cannot be used, and what to do about it."""


@final
@dataclass(frozen=True)
class Engine:
    """Where to compute.

    Attributes:
        name: ``local``, ``dask`` or ``ray``.
        address: Of a cluster that is running; without it a cluster is started on this machine.
    """

    name: str = "local"
    address: str | None = None

    @classmethod
    def parse(cls, text: str) -> "Engine":
        """``local``, ``dask``, ``ray``, ``dask=ADDRESS`` or ``ray=ADDRESS``."""
        name, _, address = text.partition("=")
        if name not in NAMES or (name == "local" and address):
            raise ValueError(
                f"engine: expected local, dask, ray, dask=ADDRESS or ray=ADDRESS, got {text!r}."
            )
        return cls(name, address or None)


@final
@dataclass(frozen=True)
class Outcome:
    """What became of a piece.

    Attributes:
        piece: Which piece.
        measurements: What it yielded.
        seconds: How long it took.
        versions: With what it was computed.
        failure: The traceback, if it failed.
    """

    piece: Piece
    measurements: Sequence[Measurement]
    seconds: float
    versions: str
    failure: str = ""


def compute(
    run: Callable[[Any, Piece, Seed], Iterable[Measurement]], config: Any, piece: Piece, seed: Seed
) -> Outcome:
    """Do one piece, on one thread and with fixed seeds, wherever this process is."""
    start = time.perf_counter()
    measurements: Sequence[Measurement] = ()
    failure = ""
    try:
        with _one_at_a_time, seeded(seed.own), one_thread():
            measurements = [checked(m) for m in run(config, piece, seed)]
            if not measurements:
                raise ValueError("run: expected at least one row from every piece, got none.")
    except DataError as error:  # says all there is to say
        failure = f"{error}\n"
    except Exception:
        failure = traceback.format_exc()
    seconds = round(time.perf_counter() - start, 3)
    return Outcome(piece, measurements, seconds, versions(), failure)


def checked(measurement: Measurement) -> dict[str, Scalar]:
    """The measurement, if it can be a row."""
    for name in ("metric", "value"):
        if name not in measurement:
            raise ValueError(f"run: expected rows with a {name}, got {dict(measurement)}.")
    for name, value in measurement.items():
        finite = not isinstance(value, float) or math.isfinite(value)
        if not isinstance(value, str | int | float | None) or not finite:
            raise ValueError(
                f"run: expected text, a finite number or None for {name}, got {value!r} in "
                f"{dict(measurement)}."
            )
    return dict(measurement)


def outcomes(
    run: Callable[[Any, Piece, Seed], Iterable[Measurement]],
    config: Any,
    work: Sequence[Work],
    engine: Engine,
    jobs: int,
) -> Generator[Outcome, None, None]:
    """Do all pieces and hand each back as soon as it is done."""
    if engine.name == "local" and min(jobs, len(work)) <= 1:
        for piece, seed in work:
            yield compute(run, config, piece, seed)
        return
    spread = over_ray if engine.name == "ray" else over_joblib
    calls = [(run, config, piece, seed) for piece, seed in work]
    try:
        yield from spread(calls, engine, jobs)
    except EngineError:
        raise
    except Exception as error:  # pieces do not raise, see `compute`
        raise EngineError(
            f"engine: {engine.name} gave up ({type(error).__name__}: {error}); finished pieces are "
            f"kept, give the same command again."
        ) from error


def over_joblib(calls: Sequence[Call], engine: Engine, jobs: int) -> Iterator[Outcome]:
    """By joblib: worker processes of this machine, or a Dask cluster."""
    from joblib import Parallel, delayed, parallel_config

    with ExitStack() as stack:
        task = compute
        if engine.name == "dask":
            stack.enter_context(dask_client(engine.address, jobs))
            stack.enter_context(parallel_config(backend="dask", n_jobs=-1))
        else:
            task = partial(compute_under, os.getpid())
            stack.enter_context(
                parallel_config(backend="loky", n_jobs=jobs, inner_max_num_threads=1)
            )
        parallel = Parallel(return_as="generator_unordered", batch_size=1)
        yield from parallel(delayed(task)(*call) for call in calls)


def compute_under(parent: int, *call: Any) -> Outcome:
    """Do one piece in a worker process that ends when the process which started it is killed."""
    end_with(parent)
    return compute(*call)


@cache
def end_with(parent: int) -> None:
    """Watch the parent from a thread; where orphans keep the number of their parent, in vain."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def over_ray(calls: Sequence[Call], engine: Engine, jobs: int) -> Iterator[Outcome]:
    """By Ray itself: its backend for joblib hands nothing back until everything is done."""
    with ray_session(engine.address, jobs) as ray:
        remote = ray.remote(compute)
        pending = [remote.remote(*call) for call in calls]
        while pending:
            (done,), pending = ray.wait(pending, num_returns=1)
            yield ray.get(done)


def not_installed(engine: str) -> str:
    """Says how to get an engine."""
    return f"engine: {engine} is not installed; pip install 'dubio-studies[{engine}]'."


@contextmanager
def dask_client(address: str | None, jobs: int) -> Iterator[None]:
    """A client of the Dask cluster at an address, or of a new one with a process for each job."""
    try:
        from distributed import Client, LocalCluster
    except ModuleNotFoundError as error:
        raise EngineError(not_installed("dask")) from error
    with ExitStack() as stack:
        if address is None:
            local = LocalCluster(n_workers=jobs, threads_per_worker=1, dashboard_address=None)
            stack.enter_context(local)
            stack.enter_context(Client(local))
        else:
            try:
                stack.enter_context(Client(address, timeout="10s"))
            except (OSError, ValueError) as error:
                raise EngineError(f"engine: no Dask scheduler answers at {address}.") from error
        yield


@contextmanager
def ray_session(address: str | None, jobs: int) -> Iterator[Any]:
    """A session with the Ray cluster at an address, or with a new one of this many processes."""
    try:
        import ray
    except ModuleNotFoundError as error:
        raise EngineError(not_installed("ray")) from error
    try:
        ray.init(
            address,
            num_cpus=None if address else jobs,
            include_dashboard=False,
            log_to_driver=False,
        )
    except ConnectionError as error:
        raise EngineError(f"engine: no Ray cluster answers at {address}.") from error
    try:
        yield ray
    finally:
        ray.shutdown()


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed the global random numbers of torch and numpy; put them back afterwards.

    Python's ``random`` is left alone: threads of a cluster's worker draw from it meanwhile.
    """
    array, tensor = np.random.get_state(), torch.get_rng_state()
    np.random.seed(seed)
    torch.manual_seed(seed)
    try:
        yield
    finally:
        np.random.set_state(array)
        torch.set_rng_state(tensor)


@contextmanager
def one_thread() -> Iterator[None]:
    """Sums depend on how they are split among threads, so there is one."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        torch.set_num_threads(before)


def versions() -> str:
    """With what rows are computed."""
    return (
        f"dubio {dubio.__version__}, torch {torch.__version__}, numpy {np.__version__}, "
        f"python {platform.python_version()}"
    )
