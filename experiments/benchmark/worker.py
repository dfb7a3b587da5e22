"""The process of a contender: reads 'train' or 'forward' from each line of its input, measures that, and writes a line of JSON."""

import json
import os
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

WINDOW = 0.1
"""Minimum duration of a measurement in seconds."""


def timed(call: Callable[[], Any], updates: int) -> dict[str, float]:
    """Return milliseconds, processor milliseconds and page faults of one update, in the mean over a window."""
    calls, before, start = 0, resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    while not calls or time.perf_counter() - start < WINDOW:
        call()
        calls += 1
    seconds, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    each = calls * updates
    return {"ms": 1e3 * seconds / each, "cpu_ms": 1e3 * cpu / each, "page_faults": (after.ru_minflt - before.ru_minflt) / each}


def peak() -> tuple[Callable[[], Any], int]:
    """Return a function that multiplies two square matrices, of 1024 rows on a CPU and 8192 elsewhere, and its number of operations."""
    import jax

    size = 1024 if jax.default_backend() == "cpu" else 8192
    a = jax.random.normal(jax.random.key(0), (size, size))
    product = jax.jit(lambda a: a @ a)
    return lambda: product(a).block_until_ready(), 2 * size**3


def main(workload: str, contender: str) -> None:
    """Serve measurements of one contender until its input ends."""
    if contender == "peak":
        product, flops = peak()
        calls: dict[str, Any] = {"train": product}
        updates, metrics = 1, {"flops": flops}
    else:
        from experiments.benchmark.contenders import CONTENDERS
        from experiments.benchmark.workloads import ALL

        if (threads := CONTENDERS[contender].threads) is not None:
            import torch  # pyright: ignore[reportMissingImports]

            torch.set_num_threads(threads)
        built = CONTENDERS[contender].build(ALL[workload])
        calls, updates, metrics = {"train": built.train, "forward": built.forward}, built.updates, built.metrics
    calls = {name: call for name, call in calls.items() if call}
    for call in calls.values():
        call()
        call()
    print(json.dumps({"measures": list(calls), **metrics, "flags": os.environ.get("XLA_FLAGS", "")}), flush=True)
    for line in sys.stdin:
        measure = line.strip()
        print(json.dumps(timed(calls[measure], updates if measure == "train" else 1)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
