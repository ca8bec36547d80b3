//! What each algorithm admits of the same calls: draws `docs/algorithms.svg`.
//!
//! ```text
//! cargo run --release --example same_burst [FILE.svg]
//! ```
//!
//! Ten a second, burst ten, one key. Nothing until 0.8 s, then a call every 5 ms for four seconds:
//! twenty times the rate, from shortly before the edge of a window on.

use std::error::Error;
use std::time::Duration;

use plotters::prelude::*;
use tollgate::{Algorithm, Clock, Limiter, Quota};

const ALGORITHMS: [(&str, Algorithm); 6] = [
    ("fixed window", Algorithm::FixedWindow),
    ("token bucket", Algorithm::TokenBucket),
    ("GCRA, tolerance 250 ms", Algorithm::Gcra),
    ("leaky bucket, by departure", Algorithm::LeakyBucket),
    ("sliding counter", Algorithm::SlidingWindowCounter),
    ("sliding log", Algorithm::SlidingWindowLog),
];

/// One for each, told apart on paper as well.
const COLORS: [RGBColor; 6] = [
    RGBColor(0xc0, 0x39, 0x2b),
    RGBColor(0x27, 0xae, 0x60),
    RGBColor(0x9a, 0x7d, 0x0a),
    RGBColor(0x1f, 0x77, 0xb4),
    RGBColor(0xe6, 0x7e, 0x22),
    RGBColor(0x7d, 0x3c, 0x98),
];

const START: u64 = 800_000_000;
const END: u64 = 4_800_000_000;
const STEP: usize = 5_000_000;

/// When calls were let through, in nanoseconds.
fn admitted(algorithm: Algorithm) -> Result<Vec<u64>, Box<dyn Error>> {
    let quota = match algorithm {
        Algorithm::Gcra => Quota::gcra(Duration::from_millis(100), Duration::from_millis(250)),
        _ => Quota::per_second(10),
    };
    let limiter = Limiter::builder(quota).algorithm(algorithm).clock(Clock::manual().0).build()?;
    let mut times = Vec::new();
    for now in (START..END).step_by(STEP) {
        let decision = limiter.check_at(1, now);
        if decision.is_allowed() {
            times.push(now + decision.delay().as_nanos() as u64);
        }
    }
    Ok(times)
}

fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::args().nth(1).unwrap_or_else(|| "docs/algorithms.svg".to_string());
    let area = SVGBackend::new(&file, (860, 520)).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .margin(12)
        .caption("Ten a second: calls let through of the same burst", ("sans-serif", 20))
        .x_label_area_size(44)
        .y_label_area_size(52)
        .build_cartesian_2d(0.6..5.9, 0.0..62.0)?;
    chart
        .configure_mesh()
        .x_desc("seconds")
        .y_desc("calls let through")
        .x_labels(12)
        .light_line_style(WHITE)
        .axis_desc_style(("sans-serif", 15))
        .label_style(("sans-serif", 13))
        .draw()?;
    println!("{:<28} {:>10} {:>22}", "algorithm", "admitted", "most in any second");
    for (index, (name, algorithm)) in ALGORITHMS.into_iter().enumerate() {
        let times = admitted(algorithm)?;
        let busiest = times
            .iter()
            .map(|from| {
                times.iter().filter(|&&at| at >= *from && at < from + 1_000_000_000).count()
            })
            .max();
        println!("{name:<28} {:>10} {:>22}", times.len(), busiest.unwrap_or(0));
        // A step for each call.
        let mut steps = vec![(0.6, 0.0)];
        for (count, &time) in times.iter().enumerate() {
            let time = time as f64 / 1e9;
            steps.extend([(time, count as f64), (time, count as f64 + 1.0)]);
        }
        steps.push((5.9, times.len() as f64));
        let color = COLORS[index];
        chart
            .draw_series(LineSeries::new(steps, color.stroke_width(2)))?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], color.stroke_width(3)));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE)
        .border_style(BLACK.mix(0.3))
        .label_font(("sans-serif", 14))
        .draw()?;
    area.present()?;
    println!("drawn to {file}");
    Ok(())
}
