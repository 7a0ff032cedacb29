//! rayon's part of the table: fork-join, flat spawns, skynet, wake-ups.
//!
//! A job cannot give way, block or be cancelled, and there is no task graph; those works are left out.

mod bench;

use bench::{expect, measure_each, Work};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Runs `body` on one of `threads` threads.
fn with_threads<T: Send>(threads: usize, body: impl FnOnce() -> T + Send) -> T {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(body)
}

fn fib(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (b, a) = rayon::join(|| fib(n - 2), || fib(n - 1)); // The second one is the task.
    a + b
}

fn run_fib(threads: usize, n: u64) -> Vec<f64> {
    let mut value = 0;
    let ns = with_threads(threads, || measure_each(bench::fib_tasks(n) as f64, || value = fib(n)));
    expect(value, bench::fib_value(n));
    vec![ns]
}

fn run_spawn(threads: usize, count: u64) -> Vec<f64> {
    let ran = AtomicU64::new(0);
    let ns = with_threads(threads, || {
        let ns = measure_each(count as f64, || {
            rayon::scope(|scope| {
                for _ in 0..count {
                    scope.spawn(|_| {});
                }
            })
        });
        rayon::scope(|scope| {
            for _ in 0..count {
                scope.spawn(|_| {
                    ran.fetch_add(1, Ordering::Relaxed);
                });
            }
        });
        ns
    });
    expect(ran.into_inner(), count);
    vec![ns]
}

fn skynet(first: u64, leaves: u64) -> u64 {
    if leaves == 1 {
        return first;
    }
    let part = leaves / 10;
    let mut sums = [0; 10];
    rayon::scope(|scope| {
        for (i, sum) in sums.iter_mut().enumerate() {
            scope.spawn(move |_| *sum = skynet(first + i as u64 * part, part));
        }
    });
    sums.iter().sum()
}

fn run_skynet(threads: usize, leaves: u64) -> Vec<f64> {
    let mut sum = 0;
    let ms = with_threads(threads, || measure_each(1e6, || sum = skynet(0, leaves)));
    expect(sum, bench::skynet_sum(leaves));
    vec![ms]
}

fn run_wake(threads: usize, samples: u64, gap: Duration) -> Vec<f64> {
    if threads < 2 {
        bench::fail("a wake-up needs two threads");
    }
    with_threads(threads, || {
        let slot = Arc::new(bench::WakeSlot::new());
        bench::measure_wake(&slot, samples, gap, || {
            let started = slot.clone();
            let pushed = Instant::now();
            rayon::spawn(move || started.on_start());
            pushed
        })
    })
}
fn run_wake_awake(threads: usize, samples: u64) -> Vec<f64> {
    run_wake(threads, samples, Duration::ZERO)
}
fn run_wake_parked(threads: usize, samples: u64) -> Vec<f64> {
    run_wake(threads, samples, bench::PARKED_GAP)
}

fn main() {
    bench::main_of(&[
        Work { name: "fib", size: 35, run: run_fib },
        Work { name: "spawn", size: 1_000_000, run: run_spawn },
        Work { name: "skynet", size: 1_000_000, run: run_skynet },
        Work { name: "wake_awake", size: 20_000, run: run_wake_awake },
        Work { name: "wake_parked", size: 300, run: run_wake_parked },
    ]);
}
