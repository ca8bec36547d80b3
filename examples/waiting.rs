//! Threads that wait for their turn instead of being refused: `cargo run --release --example waiting`.

use std::thread;
use std::time::{Duration, Instant};

use tollgate::{Limiter, Quota, WaitError, WaitOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Twenty a second, two at once. Ten calls of four threads take (10 - 2) / 20 s.
    let limiter = Limiter::new(Quota::per_second(20).burst(2))?;
    let start = Instant::now();
    thread::scope(|scope| {
        for worker in 0..4 {
            let limiter = &limiter;
            scope.spawn(move || -> Result<(), WaitError> {
                for call in (worker..10).step_by(4) {
                    limiter.wait()?;
                    println!("{:>3} ms: call {call}", start.elapsed().as_millis());
                }
                Ok(())
            });
        }
    });

    // Who would wait longer than it may is told so at once, and takes no place.
    let error = limiter.wait_with(2, WaitOptions::new().within(Duration::from_millis(1)));
    println!("two more within a millisecond: {}", error.unwrap_err());
    Ok(())
}
