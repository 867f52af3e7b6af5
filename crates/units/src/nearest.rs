//! Finds the known word that somebody probably meant: for messages about names that do not exist.

/// The candidate most like `word`, for "did you mean"; upper and lower case are the same.
pub fn nearest<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    let distance = |c: &str| edit_distance(&word, &c.to_lowercase());
    candidates.map(|c| (distance(c), c)).min().filter(|(d, _)| *d <= 3).map(|(_, c)| c)
}

/// Levenshtein distance, O(|a|·|b|).
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
