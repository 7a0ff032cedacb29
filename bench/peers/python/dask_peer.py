"""Dask's part of the rows about the host (P-13, P-14). `dask` is distributed with a local cluster: a scheduler in this process
and one worker process of one thread for each of `threads`. With --threads first, `dask_threads`: Dask's pool of threads
in this process, without distributed."""

import logging
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import driver  # noqa: E402


def noop(*_):
    return None


def began(*_):
    return time.monotonic_ns()


def chain_graph(count):
    graph = {"t0": (noop,)}
    for i in range(1, count):
        graph[f"t{i}"] = (noop, f"t{i - 1}")
    return graph


def layers_graph(count):
    return {f"t{i}": (noop, *(f"t{parent}" for parent in driver.parents(i))) for i in range(count)}


def whole_layers(count):
    return count - count % driver.WIDTH


def cluster_works():
    from distributed import Client, LocalCluster, wait  # pylint: disable=import-outside-toplevel

    logging.getLogger("distributed").setLevel(logging.ERROR)

    def with_client(threads, body):
        with LocalCluster(n_workers=threads, threads_per_worker=1, processes=True, dashboard_address=None,
                          silence_logs=logging.ERROR) as cluster, Client(cluster) as client:
            return body(client)

    def flat(threads, count):
        def body(client):
            def once():
                # pure=False: each call is a task of its own, whatever its arguments.
                futures = client.map(noop, range(count), pure=False)
                wait(futures)
                return sum(future.status == "finished" for future in futures)
            return driver.us_each(count, once)
        return with_client(threads, body)

    def of_graph(make):
        def run(threads, count):
            numbers = iter(range(1000))

            def body(client):
                def once():
                    # A graph under fresh names: Dask would take a name that it knows for the same task.
                    run_number = next(numbers)
                    names = {name: f"{name}-{run_number}" for name in (f"t{i}" for i in range(count))}
                    graph = {names[name]: (task[0], *(names[part] for part in task[1:]))
                             for name, task in make(count).items()}
                    return len(client.get(graph, list(graph), sync=True))
                return driver.us_each(count, once)
            return with_client(threads, body)
        return run

    def start(threads, count):
        return with_client(threads, lambda client: driver.us_to_start(
            count, lambda: client.submit(began, pure=False).result()))

    def round_trip(threads, count):
        return with_client(threads, lambda client: driver.us_to_end(
            count, lambda: client.submit(noop, pure=False).result()))

    layers, chain = of_graph(layers_graph), of_graph(chain_graph)
    return {"host_flat": flat, "host_chain": chain,
            "host_layers": lambda threads, count: layers(threads, whole_layers(count)), "host_start": start,
            "redis_flat": flat, "redis_chain": chain, "redis_round_trip": round_trip}


def pool_works():
    from dask.threaded import get  # pylint: disable=import-outside-toplevel

    def of_graph(make):
        def run(threads, count):
            graph = make(count)
            return driver.us_each(count, lambda: len(get(graph, list(graph), num_workers=threads)))
        return run

    def start(threads, count):
        return driver.us_to_start(count, lambda: get({"t": (began,)}, "t", num_workers=threads))

    layers = of_graph(layers_graph)
    return {"host_flat": of_graph(lambda count: {f"t{i}": (noop, i) for i in range(count)}),
            "host_chain": of_graph(chain_graph),
            "host_layers": lambda threads, count: layers(threads, whole_layers(count)), "host_start": start}


if __name__ == "__main__":  # Worker processes import this file, too.
    if sys.argv[1:2] == ["--threads"]:
        del sys.argv[1]
        sys.exit(driver.main(pool_works(), sys.argv))
    sys.exit(driver.main(cluster_works(), sys.argv))
