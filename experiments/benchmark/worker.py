"""A contender's process: reads 'train' or 'forward' a line, times that for a while, and answers with a line of JSON."""

import json
import os
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

WINDOW = 0.1
"""Seconds that one measurement takes at least."""


def timed(call: Callable[[], Any], updates: int) -> dict[str, float]:
    """Milliseconds, processor milliseconds and page faults of one update, as means over a window."""
    calls, before, start = 0, resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    while not calls or time.perf_counter() - start < WINDOW:
        call()
        calls += 1
    seconds, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    each = calls * updates
    return {"ms": 1e3 * seconds / each, "cpu_ms": 1e3 * cpu / each, "page_faults": (after.ru_minflt - before.ru_minflt) / each}


def peak() -> Callable[[], Any]:
    """One product of 1024 x 1024 matrices, of 2.1 GFLOP."""
    import jax
    import jax.numpy as jnp

    a = jnp.ones((1024, 1024))
    product = jax.jit(lambda a: a @ a)
    return lambda: product(a).block_until_ready()


def main(workload: str, contender: str) -> None:
    """Serves one contender until its input ends."""
    if contender == "peak":
        calls: dict[str, Any] = {"train": peak()}
        updates, figures = 1, {"flops": 2 * 1024**3}
    else:
        from experiments.benchmark.contenders import CONTENDERS
        from experiments.benchmark.workloads import WORKLOADS

        if (threads := CONTENDERS[contender].threads) is not None:
            import torch  # pyright: ignore[reportMissingImports]

            torch.set_num_threads(threads)
        ready = CONTENDERS[contender].build(WORKLOADS[workload])
        calls, updates, figures = {"train": ready.train, "forward": ready.forward}, ready.updates, ready.figures
    calls = {name: call for name, call in calls.items() if call}
    for call in calls.values():
        call()
        call()
    print(json.dumps({"measures": list(calls), **figures, "flags": os.environ.get("XLA_FLAGS", "")}), flush=True)
    for line in sys.stdin:
        measure = line.strip()
        print(json.dumps(timed(calls[measure], updates if measure == "train" else 1)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
