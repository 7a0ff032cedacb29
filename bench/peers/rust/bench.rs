//! What bench/common/bench.h is for the C++ programs: command line, clock, one way of measuring.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const REPETITIONS: usize = 3; // After one to warm up; the median counts.
const ENOUGH: Duration = Duration::from_secs(2);

/// Stands for a figure that a work does not have.
#[allow(dead_code)]
pub const NONE: f64 = -1.0;

pub struct Work {
    pub name: &'static str,
    pub size: u64,
    pub run: fn(usize, u64) -> Vec<f64>,
}

pub fn fail(sentence: &str) -> ! {
    eprintln!("{sentence}");
    std::process::exit(1);
}

/// Reports what the work computed and ends the program unless that is right.
pub fn expect(got: u64, want: u64) {
    eprintln!("result {got}");
    if got != want {
        fail(&format!("wrong result: {got}, expected {want}"));
    }
}

pub fn percentile(values: &[f64], p: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[(p * (sorted.len() - 1) as f64 + 0.5) as usize]
}

/// Runs once to warm up, then up to REPETITIONS times: the median of what it returns.
pub fn measure(mut once: impl FnMut() -> f64) -> f64 {
    once();
    let start = Instant::now();
    let mut values = vec![once()];
    while values.len() < REPETITIONS && start.elapsed() < ENOUGH {
        values.push(once());
    }
    percentile(&values, 0.5)
}

/// The same for work that does not time itself: nanoseconds divided by `count`.
pub fn measure_each(count: f64, mut body: impl FnMut()) -> f64 {
    measure(|| {
        let start = Instant::now();
        body();
        start.elapsed().as_nanos() as f64 / count
    })
}

pub fn fib_value(n: u64) -> u64 {
    (0..n).fold((0, 1), |(a, b), _| (b, a + b)).0
}
/// Spawned and joined tasks of fib(n): one a call with n >= 2.
pub fn fib_tasks(n: u64) -> u64 {
    fib_value(n + 1) - 1
}
pub fn skynet_sum(leaves: u64) -> u64 {
    leaves * (leaves - 1) / 2
}

/// P-9, see bench/common/wake.h: when a pushed task started, in ns after `epoch`; 0 is "not yet".
pub struct WakeSlot {
    epoch: Instant,
    started_ns: AtomicU64,
}

impl WakeSlot {
    pub fn new() -> Self {
        WakeSlot { epoch: Instant::now(), started_ns: AtomicU64::new(0) }
    }
    pub fn on_start(&self) {
        self.started_ns.store(self.epoch.elapsed().as_nanos() as u64, Ordering::Release);
    }
}

/// `push` starts a task elsewhere that calls slot.on_start() first, and returns when it was pushed.
pub fn measure_wake(slot: &WakeSlot, samples: u64, gap: Duration, mut push: impl FnMut() -> Instant) -> Vec<f64> {
    let dropped = samples / 10 + 1;
    let mut latencies = Vec::new();
    for i in 0..samples + dropped {
        let idle = Instant::now();
        while !gap.is_zero() && idle.elapsed() < gap {
            std::hint::spin_loop();
        }
        slot.started_ns.store(0, Ordering::Relaxed);
        let pushed = push();
        let mut started;
        loop {
            started = slot.started_ns.load(Ordering::Acquire);
            if started != 0 {
                break;
            }
            std::hint::spin_loop();
        }
        if i >= dropped {
            latencies.push(started as f64 - pushed.duration_since(slot.epoch).as_nanos() as f64);
        }
    }
    expect(latencies.len() as u64, samples);
    vec![percentile(&latencies, 0.5), percentile(&latencies, 0.99)]
}
pub const PARKED_GAP: Duration = Duration::from_millis(2);

pub fn main_of(works: &[Work]) {
    let arguments: Vec<String> = std::env::args().collect();
    if arguments.len() < 3 || arguments.len() > 4 {
        eprintln!("usage: {} <work> <threads> [size]", arguments[0]);
        std::process::exit(2);
    }
    let work = match works.iter().find(|work| work.name == arguments[1]) {
        Some(work) => work,
        None => {
            eprintln!("no such work here: {}", arguments[1]);
            std::process::exit(2);
        }
    };
    let threads: usize = arguments[2].parse().unwrap_or(0);
    let size: u64 = arguments.get(3).map_or(work.size, |text| text.parse().unwrap_or(0));
    if !(1..=256).contains(&threads) || size < 1 {
        fail("threads must be 1 to 256 and the size at least 1");
    }
    let figures = (work.run)(threads, size);
    let texts: Vec<String> =
        figures.iter().map(|figure| if *figure < 0.0 { "-".to_string() } else { format!("{figure:.6}") }).collect();
    println!("{}", texts.join(" "));
}
