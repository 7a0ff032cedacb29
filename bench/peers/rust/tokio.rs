//! tokio's part of the table. Its tasks are stackless: they can wait only in async functions, and need little memory.
//!
//! The multi-threaded runtime throughout, also with one thread; it has no task graph, hence no dag work.

mod bench;

use bench::{expect, measure, measure_each, Work};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;
use tokio::task::{spawn, yield_now, JoinHandle};

fn runtime(threads: usize) -> Runtime {
    Builder::new_multi_thread().worker_threads(threads).build().unwrap()
}

/// Runs `body` as a task of `runtime` and not on the main thread, which is no worker.
fn on_worker<T: Send + 'static>(runtime: &Runtime, body: impl Future<Output = T> + Send + 'static) -> T {
    runtime.block_on(async { spawn(body).await.unwrap() })
}

/// Two tasks a worker take turns; worker time a switch.
fn run_yield(threads: usize, count: u64) -> Vec<f64> {
    let runtime = runtime(threads);
    let yields = Arc::new(AtomicU64::new(0));
    let ns = measure_each((2 * count) as f64, || {
        yields.store(0, Ordering::Relaxed);
        let yields = yields.clone();
        on_worker(&runtime, async move {
            let tasks: Vec<JoinHandle<()>> = (0..2 * threads)
                .map(|_| {
                    let yields = yields.clone();
                    spawn(async move {
                        for _ in 0..count {
                            yield_now().await;
                        }
                        yields.fetch_add(count, Ordering::Relaxed);
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
        })
    });
    expect(yields.load(Ordering::Relaxed), 2 * count * threads as u64);
    vec![ns]
}

fn fib(n: u64) -> Pin<Box<dyn Future<Output = u64> + Send>> {
    Box::pin(async move {
        if n < 2 {
            return n;
        }
        let a = spawn(fib(n - 1));
        let b = fib(n - 2).await;
        a.await.unwrap() + b
    })
}

fn run_fib(threads: usize, n: u64) -> Vec<f64> {
    let runtime = runtime(threads);
    let mut value = 0;
    let ns = measure_each(bench::fib_tasks(n) as f64, || value = on_worker(&runtime, fib(n)));
    expect(value, bench::fib_value(n));
    vec![ns]
}

fn run_spawn(threads: usize, count: u64) -> Vec<f64> {
    let runtime = runtime(threads);
    let ns = measure_each(count as f64, || {
        on_worker(&runtime, async move {
            let tasks: Vec<JoinHandle<()>> = (0..count).map(|_| spawn(async {})).collect();
            for task in tasks {
                task.await.unwrap();
            }
        })
    });
    let ran = on_worker(&runtime, async move {
        let ran = Arc::new(AtomicU64::new(0));
        let mut tasks = Vec::new();
        for _ in 0..count {
            let ran = ran.clone();
            tasks.push(spawn(async move {
                ran.fetch_add(1, Ordering::Relaxed);
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
        ran.load(Ordering::Relaxed)
    });
    expect(ran, count);
    vec![ns]
}

fn skynet(first: u64, leaves: u64) -> Pin<Box<dyn Future<Output = u64> + Send>> {
    Box::pin(async move {
        if leaves == 1 {
            return first;
        }
        let part = leaves / 10;
        let children: Vec<JoinHandle<u64>> = (0..10).map(|i| spawn(skynet(first + i * part, part))).collect();
        let mut sum = 0;
        for child in children {
            sum += child.await.unwrap();
        }
        sum
    })
}

fn run_skynet(threads: usize, leaves: u64) -> Vec<f64> {
    let runtime = runtime(threads);
    let mut sum = 0;
    let ms = measure_each(1e6, || sum = on_worker(&runtime, skynet(0, leaves)));
    expect(sum, bench::skynet_sum(leaves));
    vec![ms]
}

async fn echo(mut input: mpsc::Receiver<u64>, output: mpsc::Sender<u64>, count: u64) {
    for _ in 0..count {
        let message = input.recv().await.unwrap();
        output.send(message).await.unwrap();
    }
}
async fn ping(output: mpsc::Sender<u64>, mut input: mpsc::Receiver<u64>, count: u64) -> u64 {
    let mut sum = 0;
    for _ in 0..count {
        output.send(1).await.unwrap();
        sum += input.recv().await.unwrap();
    }
    sum
}

fn run_channel(threads: usize, count: u64) -> Vec<f64> {
    if threads != 1 {
        bench::fail("one thread; channel_cross is for two");
    }
    let runtime = runtime(1);
    let mut sum = 0;
    let ns = measure_each(count as f64, || {
        sum = on_worker(&runtime, async move {
            let (there, at_other) = mpsc::channel(1);
            let (back, at_self) = mpsc::channel(1);
            let other = spawn(echo(at_other, back, count));
            let sum = ping(there, at_self, count).await;
            other.await.unwrap();
            sum
        })
    });
    expect(sum, count);
    vec![ns]
}

/// A runtime of one thread for each side: each message crosses. On one runtime of two threads, both sides soon share one.
fn run_channel_cross(threads: usize, count: u64) -> Vec<f64> {
    if threads != 2 {
        bench::fail("two threads; channel is for one");
    }
    let mut sum = 0;
    let ns = measure_each(count as f64, || {
        let (there, at_other) = mpsc::channel(1);
        let (back, at_self) = mpsc::channel(1);
        let other = std::thread::spawn(move || {
            Builder::new_current_thread().build().unwrap().block_on(echo(at_other, back, count))
        });
        sum = Builder::new_current_thread().build().unwrap().block_on(ping(there, at_self, count));
        other.join().unwrap();
    });
    expect(sum, count);
    vec![ns, 1.0]
}

fn resident_bytes() -> f64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() * 4096.0
}

/// Waits until `counter` says that all `count` tasks have started.
async fn all_started(counter: &AtomicU64, count: u64) {
    while counter.load(Ordering::Acquire) < count {
        yield_now().await;
    }
}

fn run_blocked(threads: usize, count: u64) -> Vec<f64> {
    let runtime = runtime(threads);
    let (figures, passed) = on_worker(&runtime, async move {
        let started = Arc::new(AtomicU64::new(0));
        let passed = Arc::new(AtomicU64::new(0));
        let (open, gate) = tokio::sync::watch::channel(false);
        let mut tasks = Vec::with_capacity(count as usize);
        let before = resident_bytes();
        let start = Instant::now();
        for _ in 0..count {
            let (started, passed, mut gate) = (started.clone(), passed.clone(), gate.clone());
            tasks.push(spawn(async move {
                started.fetch_add(1, Ordering::Release);
                gate.changed().await.unwrap();
                passed.fetch_add(1, Ordering::Relaxed);
            }));
        }
        all_started(&started, count).await;
        let made = start.elapsed().as_secs_f64();
        let bytes = (resident_bytes() - before) / count as f64;
        let release = Instant::now();
        open.send(true).unwrap();
        for task in tasks {
            task.await.unwrap();
        }
        let released = release.elapsed().as_secs_f64();
        (vec![bytes, made, released], passed.load(Ordering::Relaxed))
    });
    expect(passed, count);
    figures
}

fn run_cancel_polling(threads: usize, count: u64) -> Vec<f64> {
    let runtime = runtime(threads);
    let mut acknowledged = 0;
    let us = measure(|| {
        let (us, got) = on_worker(&runtime, async move {
            let started = Arc::new(AtomicU64::new(0));
            let cancelled = Arc::new(AtomicBool::new(false));
            let mut tasks = Vec::new();
            for _ in 0..count {
                let (started, cancelled) = (started.clone(), cancelled.clone());
                tasks.push(spawn(async move {
                    started.fetch_add(1, Ordering::Release);
                    while !cancelled.load(Ordering::Relaxed) {
                        yield_now().await;
                    }
                    1u64
                }));
            }
            all_started(&started, count).await;
            let requested = Instant::now();
            cancelled.store(true, Ordering::Relaxed);
            let mut got = 0;
            for task in tasks {
                got += task.await.unwrap();
            }
            (requested.elapsed().as_nanos() as f64 / 1000.0, got)
        });
        acknowledged = got;
        us
    });
    expect(acknowledged, count);
    vec![us]
}

/// Each waits for a message that never comes; `abort` is tokio's own cancellation.
fn run_cancel_blocked(threads: usize, count: u64) -> Vec<f64> {
    let runtime = runtime(threads);
    let mut acknowledged = 0;
    let us = measure(|| {
        let (us, got) = on_worker(&runtime, async move {
            let started = Arc::new(AtomicU64::new(0));
            let (_open, gate) = tokio::sync::watch::channel(false);
            let mut tasks = Vec::new();
            for _ in 0..count {
                let (started, mut gate) = (started.clone(), gate.clone());
                tasks.push(spawn(async move {
                    started.fetch_add(1, Ordering::Release);
                    gate.changed().await.unwrap();
                }));
            }
            all_started(&started, count).await;
            let requested = Instant::now();
            for task in &tasks {
                task.abort();
            }
            let mut got = 0;
            for task in tasks {
                got += u64::from(task.await.unwrap_err().is_cancelled());
            }
            (requested.elapsed().as_nanos() as f64 / 1000.0, got)
        });
        acknowledged = got;
        us
    });
    expect(acknowledged, count);
    vec![us]
}

/// A worker keeps its newest task in a slot that nobody can steal from, until the next one pushes it out: hence two
/// pushes. The clock starts before the first, because that one already wakes the other worker for the last task left.
fn run_wake(threads: usize, samples: u64, gap: Duration) -> Vec<f64> {
    if threads < 2 {
        bench::fail("a wake-up needs two threads");
    }
    on_worker(&runtime(threads), async move {
        let slot = Arc::new(bench::WakeSlot::new());
        bench::measure_wake(&slot, samples, gap, || {
            let started = slot.clone();
            let pushed = Instant::now();
            spawn(async move { started.on_start() });
            spawn(async {});
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
        Work { name: "yield", size: 1_000_000, run: run_yield },
        Work { name: "fib", size: 30, run: run_fib },
        Work { name: "spawn", size: 1_000_000, run: run_spawn },
        Work { name: "skynet", size: 1_000_000, run: run_skynet },
        Work { name: "channel", size: 500_000, run: run_channel },
        Work { name: "channel_cross", size: 5_000, run: run_channel_cross },
        Work { name: "blocked", size: 1_000_000, run: run_blocked },
        Work { name: "cancel_polling", size: 10_000, run: run_cancel_polling },
        Work { name: "cancel_blocked", size: 10_000, run: run_cancel_blocked },
        Work { name: "wake_awake", size: 20_000, run: run_wake_awake },
        Work { name: "wake_parked", size: 300, run: run_wake_parked },
    ]);
}
