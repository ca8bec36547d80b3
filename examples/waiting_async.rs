//! Tasks that wait for their turn, on tokio:
//! `cargo run --release --features tokio --example waiting_async`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tollgate::{KeyedLimiter, Quota, TokioSleeper, WaitError, WaitOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    runtime.block_on(run())
}

async fn run() -> Result<(), Box<dyn std::error::Error>> {
    // For each host twenty a second, and two at once.
    let limiter: Arc<KeyedLimiter<str>> =
        Arc::new(KeyedLimiter::new(Quota::per_second(20).burst(2))?);
    let start = Instant::now();
    let tasks = ["a.example", "b.example"].into_iter().flat_map(|host| {
        let limiter = &limiter;
        (0..5).map(move |call| {
            let limiter = Arc::clone(limiter);
            tokio::spawn(async move {
                limiter.until_ready(host, TokioSleeper).await?;
                println!("{:>3} ms: call {call} to {host}", start.elapsed().as_millis());
                Ok::<(), WaitError>(())
            })
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await??;
    }

    // A task that gives up while it waits hands its tokens back, as nobody stands behind it.
    let options = WaitOptions::new().within(Duration::from_secs(1));
    let waits = limiter.until_ready_with("a.example", 2, TokioSleeper, options);
    let result = tokio::time::timeout(Duration::from_millis(10), waits).await;
    println!("two more, given up after 10 ms: {}", result.is_err());
    Ok(())
}
