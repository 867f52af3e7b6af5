//! Every published figure, within 10 %.

use super::super::published::{FIGURES, Figure};

fn deviation(figure: &Figure, seed: u64) -> f64 {
    figure.modelled(seed) / figure.published - 1.0
}

#[test]
fn models_give_the_published_figures_within_a_tenth() {
    let wrong: Vec<String> = FIGURES
        .iter()
        .map(|figure| (figure, figure.modelled(1)))
        .filter(|(figure, modelled)| (modelled / figure.published - 1.0).abs() > 0.1)
        .map(|(figure, modelled)| {
            let show = |value| figure.measure.show(value);
            format!(
                "{}, {}: {}, published {}",
                figure.profile,
                figure.load(),
                show(modelled),
                show(figure.published)
            )
        })
        .collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn a_figure_does_not_hang_on_its_seed() {
    for figure in FIGURES.iter().filter(|figure| figure.warm_up == 0).step_by(5) {
        let spread = (deviation(figure, 2) - deviation(figure, 3)).abs();
        assert!(spread < 0.03, "{}, {}: {spread}", figure.profile, figure.load());
    }
}
