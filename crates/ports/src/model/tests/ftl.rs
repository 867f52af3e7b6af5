//! Cleaning against the closed form, and its books.

use super::super::ftl::Ftl;
use super::super::stripe::Shape;
use thermocline_units::Rng;

/// The principal branch of Lambert's W by Newton's method, for −1/e < x < 0.
fn lambert_w(x: f64) -> f64 {
    let mut w: f64 = -0.5;
    for _ in 0..60 {
        w -= (w * w.exp() - x) / (w.exp() * (1.0 + w));
    }
    w
}

/// Write amplification of FIFO cleaning under uniform random writes, with α = 1 + OP:
/// α / (α + W₀(−α e^−α)).
fn closed_form(over_provisioning: f64) -> f64 {
    let alpha = 1.0 + over_provisioning;
    alpha / (alpha + lambert_w(-alpha * (-alpha).exp()))
}

fn shape(over_provisioning: f64) -> Shape {
    Shape {
        pages: 64 * 1024 * 2,
        dies: 2,
        batch: 8,
        block_pages: 128,
        over_provisioning,
        preconditioned: true,
    }
}

/// Pages programmed for each page written, in the steady state of uniform random writes.
fn measured(over_provisioning: f64) -> f64 {
    let shape = shape(over_provisioning);
    let mut ftl = Ftl::new(shape);
    let mut rng = Rng::seeded(1);
    let mut moved = 0;
    let mut written = 0;
    for step in 0..u64::from(shape.pages) {
        let die = (step % 2) as u32;
        for _ in 0..shape.batch {
            ftl.write(rng.below(u64::from(shape.pages)) as u32, die);
        }
        let cleaned = ftl.clean(die, shape.batch);
        if step > u64::from(shape.pages) / 2 {
            moved += u64::from(cleaned.moved);
            written += u64::from(shape.batch);
        }
    }
    ftl.audit();
    1.0 + moved as f64 / written as f64
}

#[test]
fn lambert_w_solves_its_equation() {
    for x in [-0.3, -0.2, -0.05] {
        let w = lambert_w(x);
        assert!((w * w.exp() - x).abs() < 1e-12 && w > -1.0);
    }
    assert!((closed_form(0.28) - 2.48).abs() < 0.01);
}

#[test]
fn write_amplification_is_within_5_percent_of_the_closed_form() {
    for (over_provisioning, simulated) in [(0.15, 3.93), (0.28, 2.46), (0.50, 1.70)] {
        let measured = measured(over_provisioning);
        let form = closed_form(over_provisioning);
        assert!((measured / form - 1.0).abs() < 0.05, "{over_provisioning}: {measured}, {form}");
        assert!((measured / simulated - 1.0).abs() < 0.05, "{measured}, greedy {simulated}");
    }
}

#[test]
fn sequential_overwriting_moves_nothing() {
    let shape = shape(0.1);
    let mut ftl = Ftl::new(shape);
    let mut die = 0;
    for round in 0..3 {
        for batch in 0..shape.pages / shape.batch {
            for page in 0..shape.batch {
                ftl.write(batch * shape.batch + page, die);
            }
            let cleaned = ftl.clean(die, shape.batch);
            assert_eq!(cleaned.moved, 0, "round {round}, batch {batch}");
            die = (die + 1) % shape.dies;
        }
    }
    ftl.audit();
}

#[test]
fn the_books_agree_after_any_sequence() {
    for seed in 0..20 {
        let mut rng = Rng::seeded(seed);
        let shape = Shape {
            pages: 1 + rng.below(3000) as u32,
            dies: 1 + rng.below(5) as u32,
            batch: 4,
            block_pages: 16,
            over_provisioning: 0.07,
            preconditioned: seed % 2 == 0,
        };
        let mut ftl = Ftl::new(shape);
        ftl.audit();
        let hot = 1 + rng.below(u64::from(shape.pages));
        let mut die = 0;
        for _ in 0..5000 {
            die = ftl.die_with_room((die + 1) % shape.dies);
            let pages = 1 + rng.below(4) as u32;
            for _ in 0..pages {
                ftl.write(rng.below(hot) as u32, die);
            }
            ftl.pad(die, shape.batch - pages);
            ftl.clean(die, shape.batch);
            if rng.below(4) == 0 {
                ftl.forget(rng.below(u64::from(shape.pages)) as u32);
            }
        }
        ftl.audit();
    }
}
